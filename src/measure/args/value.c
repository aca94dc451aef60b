// SPDX-License-Identifier: MIT
#include "measure/args/value.h"

#include "program/arg_names.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {
	[OCP_INT] = "int",
	[OCP_C_INT] = "c_int",
	[OCP_INT64] = "int64",
	[OCP_INT32] = "int32",
	[OCP_NATIVEINT] = "nativeint",
	[OCP_FLOAT] = "float",
	[OCP_STRING] = "string",
	[OCP_BLOCK] = "block",
	[OCP_LIST] = "list",
	[OCP_FLOATS] = "floats",
	[OCP_FORCED] = "forced",
	[OCP_LAZY] = "lazy",
	[OCP_CLOSURE] = "closure",
	[OCP_OBJECT] = "object",
	[OCP_CUSTOM] = "custom",
	[OCP_ABSTRACT] = "abstract",
	[OCP_UNREADABLE] = "unreadable",
	[OCP_UNSUPPORTED] = "unsupported",
};

const char *ocp_value_kind_name(enum ocp_value_kind kind)
{
	return kind_names[kind];
}

/* ---- the record ----------------------------------------------------------------------------- */

static bool has_children(const struct value_node *node)
{
	return node->kind == NODE_BLOCK || node->kind == NODE_DOUBLES || node->kind == NODE_FORWARD;
}

static bool node_is_sound(const struct hit_record *record, const struct value_node *node)
{
	if (node->kind == NODE_PENDING || node->kind >= NODE_KINDS)
		return false;
	if (node->n == 0)
		return true;
	if (node->kind == NODE_STRING || node->kind == NODE_CUSTOM)
		return node->at + node->n <= record->n_text &&
		       (node->kind == NODE_CUSTOM || node->n <= node->size);
	return has_children(node) && node->n <= node->size;
}

/*
 * Among other things, check that the nodes after the arguments are the children of the first node,
 * then the children of the second node, and so on, and that children come after their parent. This
 * ensures that each node either is an argument or has exactly one parent.
 */
bool value_record_is_sound(const struct hit_record *record, size_t n)
{
	unsigned int next;

	if (n < sizeof(*record) || record->n_args > ARGS_MAX || record->n_nodes > RECORD_NODES ||
	    record->n_text > RECORD_TEXT || !memchr(record->comm, 0, sizeof(record->comm)))
		return false;
	next = record->n_args;
	if (next > record->n_nodes)
		return false;
	for (unsigned int i = 0; i < record->n_nodes; i++) {
		const struct value_node *node = &record->nodes[i];

		if (!node_is_sound(record, node))
			return false;
		if (!has_children(node) || node->n == 0)
			continue;
		if (node->at != next || node->at <= i || next + node->n > record->n_nodes)
			return false;
		next += node->n;
	}
	return next == record->n_nodes;
}

static const struct value_node *child(const struct hit_record *record,
				      const struct value_node *node, unsigned int i)
{
	return &record->nodes[node->at + i];
}

/* ---- lists ---------------------------------------------------------------------------------- */

static bool is_cell(const struct value_node *node)
{
	return node->kind == NODE_BLOCK && node->tag == 0 && node->size == 2;
}

/*
 * Return the second field of CELL, which is the rest of the list, or NULL if this field was not
 * recorded.
 */
static const struct value_node *rest_of(const struct hit_record *record,
					const struct value_node *cell)
{
	return cell->n == 2 ? child(record, cell, 1) : NULL;
}

/*
 * Return true if NODE looks like a list: a chain of cells that ends with [] or, because the record
 * was full, in the middle of the list (then set *IS_CUT to true). Set *N_ELEMENTS to the number of
 * recorded elements.
 */
static bool is_list(const struct hit_record *record, const struct value_node *node,
		    unsigned int *n_elements, bool *is_cut)
{
	*n_elements = 0;
	if (!is_cell(node) || node->n == 0)
		return false;
	while (node && is_cell(node)) {
		*n_elements += node->n > 0;
		node = rest_of(record, node);
	}
	*is_cut = !node;
	return !node || (node->kind == NODE_INT && node->value == 0);
}

/* ---- the tree ------------------------------------------------------------------------------- */

static enum ocp_value_kind kind_of_node(const struct value_node *node)
{
	static const enum ocp_value_kind kinds[NODE_KINDS] = {
		[NODE_PENDING] = OCP_UNREADABLE,
		[NODE_INT] = OCP_INT,
		[NODE_C_INT] = OCP_C_INT,
		[NODE_BLOCK] = OCP_BLOCK,
		[NODE_STRING] = OCP_STRING,
		[NODE_DOUBLE] = OCP_FLOAT,
		[NODE_DOUBLES] = OCP_FLOATS,
		[NODE_INT64] = OCP_INT64,
		[NODE_INT32] = OCP_INT32,
		[NODE_NATIVEINT] = OCP_NATIVEINT,
		[NODE_CUSTOM] = OCP_CUSTOM,
		[NODE_CLOSURE] = OCP_CLOSURE,
		[NODE_LAZY] = OCP_LAZY,
		[NODE_FORWARD] = OCP_FORCED,
		[NODE_OBJECT] = OCP_OBJECT,
		[NODE_ABSTRACT] = OCP_ABSTRACT,
		[NODE_UNREADABLE] = OCP_UNREADABLE,
		[NODE_UNSUPPORTED] = OCP_UNSUPPORTED,
	};

	return kinds[node->kind];
}

static struct value value_of_node(const struct hit_record *record, const struct value_node *node)
{
	struct value value = {
		.kind = kind_of_node(node),
		.tag = node->tag,
		.number = (__s64)node->value,
		.size = node->size,
		.record = record,
		.node = (unsigned int)(node - record->nodes),
	};

	if (node->kind == NODE_DOUBLE)
		memcpy(&value.real, &node->value, sizeof(value.real));
	if (node->kind == NODE_STRING || node->kind == NODE_CUSTOM) {
		value.bytes = record->text + (node->n ? node->at : 0);
		value.n_bytes = node->n;
		value.is_cut = node->n < node->size;
	}
	if (node->kind == NODE_CUSTOM) {
		/* The name of the custom type ends with NUL. Ignore the bytes after it. */
		value.n_bytes = strnlen(value.bytes, value.n_bytes);
		value.is_cut = false;
	}
	if (is_list(record, node, &value.n_items, &value.is_cut)) {
		value.kind = OCP_LIST;
	} else if (has_children(node)) {
		value.n_items = node->n;
		value.is_cut = node->n < node->size;
	}
	return value;
}

struct value value_of_arg(const struct hit_record *record, unsigned int arg)
{
	return value_of_node(record, &record->nodes[arg]);
}

struct value value_item(const struct value *value, unsigned int i)
{
	const struct hit_record *record = value->record;
	const struct value_node *node = &record->nodes[value->node];

	if (value->kind != OCP_LIST)
		return value_of_node(record, child(record, node, i));
	while (i--)
		node = child(record, node, 1);
	return value_of_node(record, child(record, node, 0));
}

/* ---- text ----------------------------------------------------------------------------------- */

/*
 * AT has N bytes. Return the number of bytes of the UTF-8 character at AT, or 0 if the bytes at AT
 * are not a printable character.
 */
static size_t printable_utf8(const unsigned char *at, size_t n)
{
	static const __u32 least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t length = *at >= 0xf0 ? 4 : *at >= 0xe0 ? 3 : *at >= 0xc0 ? 2 : 1;
	__u32 code;

	if (*at >= 0xf8 || length == 1 || length > n)
		return *at >= ' ' && *at < 0x7f;
	code = *at & (0x7fU >> length);
	for (size_t i = 1; i < length; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (at[i] & 0x3f);
	}
	/*
	 * Reject overlong forms, control characters, surrogates, and characters that reverse the
	 * text.
	 */
	if (code < least[length] || code < 0xa0 || code > 0x10ffff || (code >> 11) == 0x1b ||
	    (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069))
		return 0;
	return length;
}

static void write_escaped(FILE *out, unsigned char byte)
{
	static const char bytes[] = "\n\t\r\b", names[] = "ntrb";
	const char *at = byte ? strchr(bytes, byte) : NULL;

	if (at)
		fprintf(out, "\\%c", names[at - bytes]);
	else
		fprintf(out, "\\%03u", byte);
}

static void write_escaped_bytes(FILE *out, const char *bytes, size_t n)
{
	const unsigned char *at = (const unsigned char *)bytes;

	while (n) {
		size_t length = printable_utf8(at, n);

		if (length == 0) {
			write_escaped(out, *at);
			length = 1;
		} else {
			if (*at == '"' || *at == '\\')
				fputc('\\', out);
			fwrite(at, 1, length, out);
		}
		at += length;
		n -= length;
	}
}

static void write_quoted_string(FILE *out, const struct value *value)
{
	fputc('"', out);
	write_escaped_bytes(out, value->bytes, value->n_bytes);
	fputc('"', out);
	if (value->is_cut)
		fprintf(out, "... (%llu bytes)", value->size);
}

const char *float_text(char text[FLOAT_TEXT_BYTES], double real)
{
	if (isnan(real)) {
		snprintf(text, FLOAT_TEXT_BYTES, "nan");
		return text;
	}
	for (int digits = 12; digits <= 17; digits++) {
		snprintf(text, FLOAT_TEXT_BYTES, "%.*g", digits, real);
		if (strtod(text, NULL) == real)
			break;
	}
	return text;
}

/* Write REAL with a decimal point, as OCaml does. */
static void write_float(FILE *out, double real)
{
	char text[FLOAT_TEXT_BYTES];

	fputs(float_text(text, real), out);
	if (isfinite(real) && !strpbrk(text, ".e"))
		fputc('.', out);
}

static void write_any_value(FILE *out, const struct value *value);

static void write_items(FILE *out, const struct value *value, const char *separator)
{
	for (unsigned int i = 0; i < value->n_items; i++) {
		struct value item = value_item(value, i);

		if (i)
			fputs(separator, out);
		write_any_value(out, &item);
	}
	if (!value->is_cut)
		return;
	fprintf(out, "%s...", value->n_items ? separator : "");
	if (value->kind != OCP_LIST)
		fprintf(out, " of %llu", value->size);
}

static void write_block(FILE *out, const struct value *value)
{
	if (value->tag == 0 && value->size == 0) {
		fputs("[||]", out);
		return;
	}
	if (value->tag)
		fprintf(out, "tag%u", value->tag);
	fputc('(', out);
	write_items(out, value, ", ");
	fputc(')', out);
}

static void write_forced(FILE *out, const struct value *value)
{
	struct value item;

	if (value->n_items == 0) {
		fputs("<lazy>", out);
		return;
	}
	fputs("lazy ", out);
	item = value_item(value, 0);
	write_any_value(out, &item);
}

static void write_custom(FILE *out, const struct value *value)
{
	fputs("<custom", out);
	if (value->n_bytes)
		fputc(' ', out);
	write_escaped_bytes(out, value->bytes, value->n_bytes);
	fputc('>', out);
}

static void write_any_value(FILE *out, const struct value *value)
{
	switch (value->kind) {
	case OCP_INT:
	case OCP_C_INT:
		fprintf(out, "%lld", value->number);
		break;
	case OCP_INT64:
		fprintf(out, "%lldL", value->number);
		break;
	case OCP_INT32:
		fprintf(out, "%lldl", value->number);
		break;
	case OCP_NATIVEINT:
		fprintf(out, "%lldn", value->number);
		break;
	case OCP_FLOAT:
		write_float(out, value->real);
		break;
	case OCP_STRING:
		write_quoted_string(out, value);
		break;
	case OCP_BLOCK:
		write_block(out, value);
		break;
	case OCP_LIST:
		fputc('[', out);
		write_items(out, value, "; ");
		fputc(']', out);
		break;
	case OCP_FLOATS:
		fputs("[|", out);
		write_items(out, value, "; ");
		fputs("|]", out);
		break;
	case OCP_FORCED:
		write_forced(out, value);
		break;
	case OCP_CUSTOM:
		write_custom(out, value);
		break;
	case OCP_UNSUPPORTED:
		fputc('?', out);
		break;
	default:
		fprintf(out, "<%s>", ocp_value_kind_name(value->kind));
	}
}

/*
 * Write VALUE. If TYPE is bool or char, and VALUE is an int in the range of this type, write it as
 * a bool or char.
 */
static void write_typed(FILE *out, const struct value *value, enum ocp_arg_type type)
{
	if (value->kind == OCP_INT && type == OCP_ARG_BOOL && (value->number & ~1LL) == 0) {
		fputs(value->number ? "true" : "false", out);
	} else if (value->kind == OCP_INT && type == OCP_ARG_CHAR && value->number >= 0 &&
		   value->number <= UINT8_MAX) {
		const unsigned char byte = (unsigned char)value->number;

		fputc('\'', out);
		if (byte == '\'' || byte == '\\')
			fprintf(out, "\\%c", byte);
		else if (byte >= ' ' && byte < 0x7f)
			fputc(byte, out);
		else
			write_escaped(out, byte);
		fputc('\'', out);
	} else {
		write_any_value(out, value);
	}
}

void value_write(FILE *out, const struct value *value, enum ocp_arg_type type)
{
	write_typed(out, value, type);
}

void value_write_args(FILE *out, const struct hit_record *record, const char *names)
{
	for (unsigned int i = 0; i < record->n_args; i++) {
		struct value value = value_of_arg(record, i);
		struct arg_name arg;

		arg_names_next(&names, &arg);
		fputc(' ', out);
		if (arg.n_bytes)
			fprintf(out, "%.*s=", (int)arg.n_bytes, arg.name);
		write_typed(out, &value, arg.type);
	}
	if (record->n_left_out)
		fprintf(out, " ... and %u more", record->n_left_out);
}
