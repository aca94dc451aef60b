// SPDX-License-Identifier: MIT
/* The names of cgroups: which container and pod they say, and what they do not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "look/container.h"
#include "unit.h"

#define ID    "4f5c6d7e8f901a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f70819a2b"
#define OTHER "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define UID   "6e9f1c2a-3b4d-4c5e-8f60-718293a4b5c6"
#define UID_  "6e9f1c2a_3b4d_4c5e_8f60_718293a4b5c6"
#define HASH  "0123456789abcdef0123456789abcdef"

static void assert_container(const char *text, const char *pod, const char *id)
{
	struct container container;

	/* A buffer of exactly that size, so that the sanitizer sees a step beyond it. */
	char *copy = strdup(text);

	assert_non_null(copy);
	memset(&container, 'x', sizeof(container));
	container_parse(copy, &container);
	free(copy);
	if (strcmp(container.pod, pod) != 0 || strcmp(container.id, id) != 0)
		fail_msg("%s: pod '%s', container '%s'", text, container.pod, container.id);
}

TEST(the_layouts_of_runtimes_are_known)
{
	static const struct {
		const char *text, *pod, *id;
	} known[] = {
		/* Kubernetes, systemd driver, cgroup v2. */
		{ "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
		  ".slice/cri-containerd-" ID ".scope\n",
		  UID, ID },
		{ "0::/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope/container\n",
		  UID, ID },
		{ "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_
		  ".slice/docker-" ID ".scope\n",
		  UID, ID },
		{ "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" HASH
		  ".slice/cri-containerd-" ID ".scope",
		  HASH, ID },
		/* cgroupfs driver. */
		{ "0::/kubepods/burstable/pod" UID "/" ID "\n", UID, ID },
		{ "0::/kubepods/pod" HASH "/" ID "\n", HASH, ID },
		{ "0::/kubepods/besteffort/pod" UID "/crio-" ID "\n", UID, ID },
		{ "0::/system.slice/containerd.service/kubepods-burstable-pod" UID_
		  ".slice:cri-containerd:" ID "\n",
		  UID, ID },
		/* cgroup v1: a line for each hierarchy. */
		{ "12:pids:/kubepods/burstable/pod" UID "/" ID
		  "\n11:cpu,cpuacct:/kubepods/burstable/pod" UID "/" ID
		  "\n1:name=systemd:/kubepods/burstable/pod" UID "/" ID "\n0::/\n",
		  UID, ID },
		{ "9:name=systemd:/\n8:pids:/\n4:memory:/docker/" ID "\n0::/\n", "", ID },
		/* Docker and podman. */
		{ "0::/system.slice/docker-" ID ".scope\n", "", ID },
		{ "0::/docker/" ID "\n", "", ID },
		{ "0::/machine.slice/libpod-" ID ".scope/container\n", "", ID },
		{ "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID
		  ".scope\n",
		  "", ID },
		{ "0::/machine.slice/machine-libpod_pod_" OTHER ".slice/libpod-" ID ".scope\n",
		  OTHER, ID },
		{ "0::/libpod_parent/libpod-" ID "\n", "", ID },
		/* As a reader in a cgroup namespace sees them: of another pod, and of its own. */
		{ "0::/../../kubepods-besteffort-pod" UID_ ".slice/cri-containerd-" ID ".scope\n",
		  UID, ID },
		{ "0::/../../../burstable/pod" UID "/" ID "\n", UID, ID },
		{ "0::/../cri-containerd-" ID ".scope\n", "", ID },
		{ "0::/../" ID "\n", "", ID },
		/* Of a pod as a whole, and of a cgroup that was removed. */
		{ "0::/kubepods/burstable/pod" UID "\n", UID, "" },
		{ "0::/docker/" ID " (deleted)\n", "", ID },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		assert_container(known[i].text, known[i].pod, known[i].id);
}

TEST(the_outermost_container_counts)
{
	assert_container("0::/docker/" ID "/docker/" OTHER "\n", "", ID);
	assert_container("0::/docker/" ID "/kubepods/pod" UID "/" OTHER "\n", "", ID);
	assert_container("0::/kubepods/pod" UID "/" ID "/docker-" OTHER ".scope/init.scope\n", UID,
			 ID);
}

/* Pods and ids of different lines are never put together. */
TEST(a_line_with_a_container_comes_before_others)
{
	assert_container("2:cpu:/kubepods/pod" UID "\n1:pids:/docker/" ID "\n", "", ID);
	assert_container("2:cpu:/kubepods/pod" UID "\n1:pids:/kubepods/pod" HASH "\n", UID, "");
	assert_container("2:cpu:/docker/" ID "\n1:pids:/docker/" OTHER "\n", "", ID);
}

TEST(all_else_is_no_container)
{
	static const char *const texts[] = {
		"",
		"\n",
		"0::/",
		"0::/init.scope\n",
		"0::/user.slice/user-1000.slice/session-2.scope\n",
		"0::/system.slice/docker.service\n",
		"4:memory:/process_api/" HASH "\n0::/\n",
		"0::/lxc.payload.web/system.slice\n",
		/* Too short, too long, not in lower case, not hexadecimal, something behind. */
		"0::/docker/4f5c6d7e8f90\n",
		"0::/docker/0" ID "\n",
		"0::/docker/" ID "0\n",
		"0::/docker/4F5C6D7E8F901A2B3C4D5E6F708192A3B4C5D6E7F8091A2B3C4D5E6F70819A2B\n",
		"0::/docker/g"
		"f5c6d7e8f901a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f70819a2b\n",
		"0::/docker-" ID ".service\n",
		"0::/docker" ID ".scope\n",
		"0::/docker-" ID ".scope.scope\n",
		/* The monitor of a container. */
		"0::/machine.slice/libpod-conmon-" ID ".scope\n",
		"0::/system.slice/crio-conmon-" ID ".scope\n",
		/* No pods. */
		"0::/kubepods/burstable/pod\n",
		"0::/kubepods/tripod" UID "\n",
		"0::/kubepods/pod6e9f1c2a-3b4d_4c5e-8f60-718293a4b5c6\n",
		"0::/kubepods/pod" UID "0\n",
		"0::/kubepods/pod6e9f1c2a\n",
		/* Not of this form; the controllers are no path. */
		ID,
		"0:" ID,
		"1:name=" ID ":/\n",
		"::",
		":::",
		"0::/docker/\n" ID "\n",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_container(texts[i], "", "");
}

/* Every beginning of a text is read, and says no other ids than the whole. */
TEST(a_text_may_end_anywhere)
{
	static const char text[] = "5:cpu:/x\n0::/kubepods.slice/kubepods-burstable-pod" UID_
				   ".slice/cri-containerd-" ID ".scope\n";
	char part[sizeof(text)];

	for (size_t n = 0; n < sizeof(text); n++) {
		struct container container;

		snprintf(part, sizeof(part), "%.*s", (int)n, text);
		container_parse(part, &container);
		assert_true(!*container.pod || strcmp(container.pod, UID) == 0);
		assert_true(!*container.id || strcmp(container.id, ID) == 0);
	}
}

TEST(containers_are_compared_by_both_ids)
{
	struct container none = { "", "" }, one = { UID, ID }, pod = { UID, "" }, id = { "", ID };

	assert_false(container_is_known(&none));
	assert_true(container_is_known(&pod));
	assert_true(container_is_known(&id));
	assert_true(container_equal(&one, &one));
	assert_false(container_equal(&one, &pod));
	assert_false(container_equal(&one, &id));
	assert_true(container_equal(&none, &none));
}

/* Whatever this runs in: it is our own. */
TEST(our_own_container_is_none)
{
	struct container container = { "x", "x" };

	assert_true(container_read(getpid(), &container));
	assert_false(container_is_known(&container));
	assert_false(container_read(0x3ffffff, &container));
	assert_false(container_is_known(&container));
}
