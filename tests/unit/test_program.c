// SPDX-License-Identifier: MIT
/* From a file to its probes: the fixtures, compared with what they say of themselves. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "unit.h"

static const char *const FIXTURES[] = {
	"v0", "v0_single", "transitional", "transitional_single", "v1", "v1_dot", "v2", "no_probes",
};

static const char *const VARIANTS[] = { "", "-nopie", "-stripped" };

static const char *abi_name(enum site_abi abi)
{
	static const char *const names[] = {
		[SITE_ABI_V0] = "v0",
		[SITE_ABI_TRANSITIONAL] = "transitional",
		[SITE_ABI_V1] = "v1",
		[SITE_ABI_V2] = "v2",
	};

	return names[abi];
}

/* One line of `FIXTURE --expect`. */
struct expected_site {
	uint64_t va, semaphore_va;
	char name[200], args[400];
};

static bool parse_expected(char *line, struct expected_site *out)
{
	char *name = strstr(line, " name "), *args = strstr(line, " args ");

	if (!name || !args ||
	    sscanf(line, "site %lx semaphore %lx", &out->va, &out->semaphore_va) != 2)
		return false;
	line[strcspn(line, "\n")] = '\0';
	*args = '\0';
	snprintf(out->name, sizeof(out->name), "%s", name + strlen(" name "));
	snprintf(out->args, sizeof(out->args), "%s", args + strlen(" args "));
	return true;
}

/* The first site of PROG that matches EXPECTED and is not SEEN yet. */
static const struct site *find_site(const struct ocp_program *prog, const bool *seen,
				    const struct expected_site *expected)
{
	for (size_t i = 0; i < prog->n_sites; i++) {
		const struct site *site = &prog->sites[i];

		if (!seen[i] && site->has_code == (expected->va != 0) && site->va == expected->va &&
		    site->semaphore_va == expected->semaphore_va &&
		    strcmp(prog->probes[site->probe].name, expected->name) == 0 &&
		    strcmp(site->args, expected->args) == 0)
			return site;
	}
	return NULL;
}

/* Every site that the fixture says it has is found once, and no other. */
static void compare_with_expectations(const struct ocp_program *prog, const char *path)
{
	struct expected_site expected;
	char command[5000], line[1000], abi[40];
	bool *seen = calloc(prog->n_sites + 1, sizeof(*seen));
	size_t n = 0;
	FILE *f;

	assert_non_null(seen);
	snprintf(command, sizeof(command), "'%s' --expect", path);
	f = popen(command, "r"); /* NOLINT(cert-env33-c): our own path */
	assert_non_null(f);
	assert_int_equal(fscanf(f, "abi %39s\n", abi), 1);
	for (; fgets(line, sizeof(line), f); n++) {
		const struct site *site;

		assert_true(parse_expected(line, &expected));
		site = find_site(prog, seen, &expected);
		if (!site)
			fail_msg("%s: site 0x%lx of %s was not read so", path, expected.va,
				 expected.name);
		assert_string_equal(abi_name(site->abi), abi);
		assert_int_equal(site->tracer_semaphore_va,
				 site->abi == SITE_ABI_V0 ? 0 : expected.semaphore_va - 2);
		seen[site - prog->sites] = true;
	}
	assert_int_equal(pclose(f), 0);
	assert_int_equal(prog->n_sites, n);
	free(seen);
}

/* Probes are sorted by name, and each has its sites, sorted by address, site-less ones last. */
static void check_order(const struct ocp_program *prog)
{
	size_t next = 0;

	for (size_t i = 0; i < prog->n_probes; i++) {
		const struct probe *probe = &prog->probes[i];

		assert_true(i == 0 || strcmp(prog->probes[i - 1].name, probe->name) < 0);
		assert_int_equal(probe->first_site, next);
		assert_true(probe->n_sites > 0);
		next += probe->n_sites;
		for (size_t j = probe->first_site; j < next; j++) {
			assert_int_equal(prog->sites[j].probe, i);
			if (j == probe->first_site)
				continue;
			assert_true(prog->sites[j - 1].has_code || !prog->sites[j].has_code);
			assert_true(!prog->sites[j].has_code ||
				    prog->sites[j - 1].va < prog->sites[j].va);
		}
		assert_int_equal(program_find_probe(prog, probe->name), i);
	}
	assert_int_equal(prog->n_sites, next);
	assert_int_equal(program_find_probe(prog, "no_such_probe"), -1);
}

TEST(fixtures_read_as_they_say)
{
	struct ocp_ctx *ctx = *state;
	struct ocp_program *prog;

	for (size_t i = 0; i < 3 * sizeof(FIXTURES) / sizeof(FIXTURES[0]); i++) {
		char name[100];

		snprintf(name, sizeof(name), "%s%s", FIXTURES[i / 3], VARIANTS[i % 3]);
		if (ocp_program_open(ctx, fixture_path(name), &prog) != 0)
			fail_msg("%s", ocp_error(ctx));
		compare_with_expectations(prog, fixture_path(name));
		check_order(prog);
		ocp_program_free(prog);
	}
}

TEST(public_functions_give_names_and_code_sites)
{
	struct ocp_ctx *ctx = *state;
	struct ocp_program *prog;

	assert_int_equal(ocp_program_open(ctx, fixture_path("v2"), &prog), 0);
	assert_int_equal(ocp_program_probe_count(prog), 4);
	assert_string_equal(ocp_program_probe_name(prog, 0), "both");
	assert_int_equal(ocp_program_probe_sites(prog, 0), 1);
	assert_string_equal(ocp_program_probe_name(prog, 1), "started_on");
	assert_int_equal(ocp_program_probe_sites(prog, 1), 1);
	assert_string_equal(ocp_program_probe_name(prog, 2), "with_site");
	assert_int_equal(ocp_program_probe_sites(prog, 2), 1);
	assert_string_equal(ocp_program_probe_name(prog, 3), "without_site");
	assert_int_equal(ocp_program_probe_sites(prog, 3), 0);
	ocp_program_free(prog);

	assert_int_equal(ocp_program_open(ctx, fixture_path("no_probes"), &prog), 0);
	assert_int_equal(ocp_program_probe_count(prog), 0);
	ocp_program_free(prog);
}

/* A prelinked file: .stapsdt.base is MOVED bytes above where the notes say. */
TEST(prelinking_is_undone)
{
	static const uint64_t moved[] = { 0x1000, 0x7fff00000000, -UINT64_C(0x2000) };
	struct ocp_ctx *ctx = *state;
	struct ocp_program *plain, *prog;
	struct fixture fixture;

	for (size_t k = 0; k < sizeof(moved) / sizeof(moved[0]); k++) {
		fixture_load(&fixture, "v2");
		assert_int_equal(fixture_open(&fixture, ctx, &plain), 0);
		for (size_t i = 0; i < plain->n_sites; i++) {
			struct fixture_note *note = fixture_note(&fixture, i);

			note->base -= moved[k];
			note->semaphore -= moved[k];
			if (note->site)
				note->site -= moved[k];
		}
		assert_int_equal(fixture_open(&fixture, ctx, &prog), 0);
		assert_int_equal(prog->n_sites, plain->n_sites);
		for (size_t i = 0; i < plain->n_sites; i++) {
			assert_int_equal(prog->sites[i].va, plain->sites[i].va);
			assert_int_equal(prog->sites[i].has_code, plain->sites[i].has_code);
			assert_int_equal(prog->sites[i].semaphore_va, plain->sites[i].semaphore_va);
			assert_int_equal(prog->sites[i].tracer_semaphore_va,
					 plain->sites[i].tracer_semaphore_va);
		}
		ocp_program_free(plain);
		ocp_program_free(prog);
		fixture_free(&fixture);
	}
}

TEST(missing_files_are_named)
{
	struct ocp_ctx *ctx = *state;
	struct ocp_program *prog = (struct ocp_program *)ctx;

	assert_int_equal(ocp_program_open(ctx, "/no/such/file", &prog), -ENOENT);
	assert_null(prog);
	assert_string_equal(ocp_error(ctx), "/no/such/file: No such file or directory");
	assert_int_equal(ocp_program_open(ctx, "/proc/self", &prog), -ENOEXEC);
	assert_string_equal(ocp_error(ctx), "/proc/self: not a regular file");
	assert_int_equal(ocp_program_open(ctx, "/dev/zero", &prog), -ENOEXEC);
}

static int new_ctx(void **state)
{
	*state = ocp_ctx_new();
	return *state ? 0 : -1;
}

static int free_ctx(void **state)
{
	ocp_ctx_free(*state);
	return 0;
}

ALL_TESTS(new_ctx, free_ctx);
