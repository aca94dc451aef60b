// SPDX-License-Identifier: MIT
// C++ between frames of OCaml, which throws and catches: foreign.ml.
#include <stdexcept>

extern "C" {
#define CAML_NAME_SPACE
#include <caml/callback.h>
#include <caml/mlvalues.h>

value foreign_guarded(value f, value n);
}

namespace
{

struct counted {
	int &n;
	explicit counted(int &n) : n(n)
	{
		n++;
	}
	~counted()
	{
		n--;
	}
};

// What is destroyed on the way out makes each of these frames one that the exception passes.
long descend(value f, value n, int depth, int &alive)
{
	const counted one(alive);

	if (depth > 0)
		return descend(f, n, depth - 1, alive) + 1;

	const value result = caml_callback_exn(f, n);

	if (Is_exception_result(result))
		throw std::runtime_error("OCaml has raised");
	return Long_val(result);
}

} // namespace

// F(N), and 5 if it raises.
value foreign_guarded(value f, value n)
{
	int alive = 0;

	try {
		return Val_long(descend(f, n, 3, alive));
	} catch (const std::runtime_error &) {
		return Val_long(alive ? -1 : 5);
	}
}
