// SPDX-License-Identifier: MIT
/* An executable of FILLER_MB megabytes with 1000 probes; their notes follow the filler. */
#include "probe.h"

#define TEXT(x)	  #x
#define NUMBER(x) TEXT(x)

__asm__(".pushsection .filler, \"a\", \"progbits\"\n"
	"	.fill " NUMBER(
		FILLER_MB) " * 1024 * 128, 8, 0x1122334455667788\n"
			   ".popsection\n"
			   ".pushsection .text\n"
			   ".altmacro\n"
			   ".macro probe n\n" PROBE_SITE("site_\\n") PROBE_NOTE("site_\\n",
										"probe_\\n",
										"sem_\\n")
				   PROBE_SEMAPHORE("sem_\\n") ".endm\n"
							      ".set i, 0\n"
							      ".rept 1000\n"
							      "	probe %i\n"
							      "	.set i, i + 1\n"
							      ".endr\n"
							      "	ret\n"
							      ".popsection\n" PROBE_NOTE_BASE);

int main(void)
{
	return 0;
}
