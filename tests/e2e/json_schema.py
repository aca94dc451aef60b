"""json_schema.py SCHEMA FILE...: is each JSON object of the FILEs what SCHEMA says?

A reader of JSON Schema of our own, for the words that tools/schemas uses: an unknown word is an error. The schemas are
open, since later versions may add members; here an object must not have members that its schema does not name, so
that the schemas name them all. `null` and numbers are told apart as in JSON: 1.0 is an integer, true is not.

A FILE has one object a line, or one object. Status 1: a line for each of the first things that are wrong.

json_schema.py --members SCHEMA...: print the names of all members that the schemas have, a line each.
"""

import json
import re
import sys

TYPES = {
    "null": lambda v: v is None,
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: not isinstance(v, bool) and (isinstance(v, int) or isinstance(v, float) and v.is_integer()),
    "number": lambda v: not isinstance(v, bool) and isinstance(v, (int, float)),
    "string": lambda v: isinstance(v, str),
    "array": lambda v: isinstance(v, list),
    "object": lambda v: isinstance(v, dict),
}
# Words that say nothing about a value.
NOTES = {"$schema", "title", "description", "$defs"}


def same(a, b):
    return json.dumps(a) == json.dumps(b)


class Schema:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.root = json.load(file)
        self.check_words(self.root)

    def check_words(self, schema):
        for word, value in schema.items():
            if word not in NOTES and not hasattr(self, "word_" + word.replace("$", "")):
                sys.exit(f"unknown word {word}")
            for part in self.parts(word, value):
                self.check_words(part)

    @staticmethod
    def parts(word, value):
        """The schemas in the VALUE of a word."""
        if word in ("properties", "$defs"):
            return value.values()
        if word in ("anyOf", "oneOf"):
            return value
        return [value] if word in ("items", "additionalProperties") and isinstance(value, dict) else []

    def members(self, schema=None):
        schema = self.root if schema is None else schema
        yield from schema.get("properties", {})
        for word, value in schema.items():
            for part in self.parts(word, value):
                yield from self.members(part)

    def wrong(self, value, schema=None, where="$"):
        """What is wrong with VALUE: texts."""
        schema = self.root if schema is None else schema
        for word, wanted in schema.items():
            if word not in NOTES:
                yield from getattr(self, "word_" + word.replace("$", ""))(value, wanted, schema, where)

    # ---- words --------------------------------------------------------------------------------

    def word_ref(self, value, wanted, _schema, where):
        yield from self.wrong(value, self.root["$defs"][wanted.removeprefix("#/$defs/")], where)

    def word_type(self, value, wanted, _schema, where):
        if not any(TYPES[kind](value) for kind in ([wanted] if isinstance(wanted, str) else wanted)):
            yield f"{where}: {value!r:.80} is not {wanted}"

    def word_const(self, value, wanted, _schema, where):
        if not same(value, wanted):
            yield f"{where}: {value!r:.80} is not {wanted!r}"

    def word_enum(self, value, wanted, _schema, where):
        if not any(same(value, one) for one in wanted):
            yield f"{where}: {value!r:.80} is not one of {wanted}"

    def word_anyOf(self, value, wanted, _schema, where):
        tries = [list(self.wrong(value, one, where)) for one in wanted]
        if all(tries):
            # The try that is wrong deepest inside is the one that was meant.
            yield from max(tries, key=lambda wrong: (max(text.split(": ")[0].count(".") for text in wrong), -len(wrong)))

    def word_oneOf(self, value, wanted, _schema, where):
        n = sum(not list(self.wrong(value, one, where)) for one in wanted)
        if n != 1:
            yield f"{where}: {n} of its {len(wanted)} forms, not 1"

    def word_properties(self, value, wanted, schema, where):
        for name, its in value.items() if isinstance(value, dict) else ():
            if name in wanted:
                yield from self.wrong(its, wanted[name], f"{where}.{name}")
            elif "additionalProperties" not in schema:
                yield f"{where}.{name}: not in the schema"

    def word_additionalProperties(self, value, wanted, schema, where):
        for name, its in value.items() if isinstance(value, dict) else ():
            if name in schema.get("properties", {}):
                continue
            if wanted is False:
                yield f"{where}.{name}: no such member"
            else:
                yield from self.wrong(its, wanted, f"{where}.{name}")

    def word_required(self, value, wanted, _schema, where):
        for name in wanted:
            if isinstance(value, dict) and name not in value:
                yield f"{where}.{name}: missing"

    def word_dependentRequired(self, value, wanted, _schema, where):
        for name, others in wanted.items():
            if isinstance(value, dict) and name in value:
                yield from self.word_required(value, others, None, where)

    def word_items(self, value, wanted, _schema, where):
        for i, item in enumerate(value if isinstance(value, list) else ()):
            yield from self.wrong(item, wanted, f"{where}[{i}]")

    def word_minItems(self, value, wanted, _schema, where):
        if isinstance(value, list) and len(value) < wanted:
            yield f"{where}: has {len(value)} items, fewer than {wanted}"

    def word_maxItems(self, value, wanted, _schema, where):
        if isinstance(value, list) and len(value) > wanted:
            yield f"{where}: has {len(value)} items, more than {wanted}"

    def word_minLength(self, value, wanted, _schema, where):
        if isinstance(value, str) and len(value) < wanted:
            yield f"{where}: is shorter than {wanted}"

    def word_maxLength(self, value, wanted, _schema, where):
        if isinstance(value, str) and len(value) > wanted:
            yield f"{where}: is longer than {wanted}"

    def word_pattern(self, value, wanted, _schema, where):
        if isinstance(value, str) and not re.search(wanted, value):
            yield f"{where}: {value!r:.80} does not match {wanted}"

    def word_minimum(self, value, wanted, _schema, where):
        if TYPES["number"](value) and value < wanted:
            yield f"{where}: {value} is below {wanted}"

    def word_exclusiveMinimum(self, value, wanted, _schema, where):
        if TYPES["number"](value) and value <= wanted:
            yield f"{where}: {value} is not above {wanted}"

    def word_maximum(self, value, wanted, _schema, where):
        if TYPES["number"](value) and value > wanted:
            yield f"{where}: {value} is above {wanted}"


def objects(path):
    """The objects of a file, with the numbers of their lines."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        yield 1, json.loads(text)
    except ValueError:
        for number, line in enumerate(text.splitlines(), 1):
            if line:
                yield number, json.loads(line)


def main(*args):
    if args[0] == "--members":
        print(*sorted({name for path in args[1:] for name in Schema(path).members()}), sep="\n")
        return 0
    schema, n, faults = Schema(args[0]), 0, []
    for path in args[1:]:
        for number, value in objects(path):
            n += 1
            faults += [f"{path}:{number}: {text}" for text in schema.wrong(value)]
            if len(faults) > 10:
                break
    print(*(faults or [f"{n} objects"]), sep="\n")
    return 1 if faults or not n else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
