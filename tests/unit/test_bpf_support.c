// SPDX-License-Identifier: MIT
/* What the tool says if the kernel refuses to measure. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "kernel/bpf_support.h"
#include "unit.h"

static const char *release = "6.1.0-13-amd64";

WRAP(int, uname, (struct utsname * names), (names))
{
	*names = (struct utsname){ 0 };
	snprintf(names->release, sizeof(names->release), "%s", release);
	return 0;
}

/* Check the error that CODE results in, and its message, which has the text PART. */
static void check_message(int code, int err, const char *part)
{
	struct ocp_ctx *ctx = ocp_ctx_new();

	assert_non_null(ctx);
	assert_int_equal(bpf_support_explain(ctx, code, "loading the programs"), err);
	if (!strstr(ocp_error(ctx), part))
		fail_msg("%s: %s", release, ocp_error(ctx));
	ocp_ctx_free(ctx);
}

TEST(an_old_kernel_is_told_from_one_without_uprobes)
{
	static const struct {
		const char *release;
		bool is_old;
	} kernels[] = {
		{ "3.10.0-1160.el7", true }, { "4.19.0", true },	  { "4.20.1", true },
		{ "5.4.0-42", true },	     { "5.14.21", true },	  { "5.15.0", false },
		{ "5.19.17", false },	     { "6.0.0", false },	  { "6.14.2-arch1", false },
		{ "10.2", false },	     { "not a version 1", true },
	};

	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		const char *part = kernels[i].is_old ? "is too old; Linux 5.15 or newer is needed"
						     : "was built without uprobes for BPF";

		release = kernels[i].release;
		check_message(-ENOSYS, -EOPNOTSUPP, part);
		check_message(-EOPNOTSUPP, -EOPNOTSUPP, part);
	}
}

TEST(other_errors_have_their_texts)
{
	check_message(-ENOMEM, -ENOMEM, "measuring: no memory for loading the programs");
	check_message(-EBUSY, -EBUSY, "measuring: loading the programs: Device or resource busy");
}

TEST(an_invalid_request_is_one_of_the_caller)
{
	/* For others it means that they may not measure. */
	if (geteuid() != 0)
		skip();
	/* To the callers of the library, -EINVAL would mean that their request is invalid. */
	check_message(-EINVAL, -EIO, "measuring: loading the programs: Invalid argument");
}
