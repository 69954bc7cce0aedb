/* What the three tools share: parsing numbers and type names, words for verdicts, closing stdout.
 */
#ifndef ORK_TOOL_H
#define ORK_TOOL_H

#include <stdbool.h>
#include <stdint.h>

#include "ork.h"

/* The whole of text as a decimal number within [low, high]; false otherwise. */
bool tool_number(const char *text, uint32_t low, uint32_t high, uint32_t *out);

/* "i8", "i4", "f16", "f16h", and for int4 its old recipes "i4:stride2", "i4:bchain", "i4:rows". */
bool tool_type(const char *text, enum ork_type *type, enum ork_i4_mode *mode);
const char *tool_type_name(enum ork_type type, enum ork_i4_mode mode);

/* The word for a self-test verdict. */
const char *tool_verdict(int verdict);

/* Bytes of s as a JSON string to stdout. */
void tool_json_string(const char *s);

/* The tool's last call: status, or 1 (and a sentence on stderr) when not all of the output could
 * be written. */
int tool_finish(const char *tool, int status);

#endif
