"""Whether JSON is what its schema says, and has nothing that is not described."""

import copy
import json

from jsonschema import Draft202012Validator

from frontier.status.document import schema


def strict(name):
    """What accepts only the document *name*, and no field that is not described."""
    made = copy.deepcopy(schema())
    places = [made]
    while places:
        place = places.pop()
        if isinstance(place, dict):
            if "properties" in place:
                place.setdefault("additionalProperties", False)
            places.extend(place.values())
        elif isinstance(place, list):
            places.extend(place)
    del made["anyOf"]
    return Draft202012Validator({**made, "$ref": f"#/$defs/{name}"})


def check(name, document):
    """Fail if *document* is not what the schema says, as it is printed."""
    printed = json.loads(json.dumps(document, allow_nan=False))
    errors = [e.message[:300] for e in strict(name).iter_errors(printed)]
    assert errors == []
