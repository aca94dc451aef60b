// SPDX-License-Identifier: MIT
#include <caml/mlvalues.h>
#include <sys/prctl.h>
#include <unistd.h>

value crew_tid(value unit);
value crew_set_name(value name);

value crew_tid(value unit)
{
	(void)unit;
	return Val_long(gettid());
}

/* Rename the thread as C programs do. */
value crew_set_name(value name)
{
	prctl(PR_SET_NAME, String_val(name), 0, 0, 0);
	return Val_unit;
}
