/*
 * YAML made into JSON's values, as the readers of CDI files do (Go's sigs.k8s.io/yaml): plain
 * scalars are null, booleans and numbers by YAML 1.1's rules, quoted ones strings; keys are
 * strings; "<<" merges.
 */
#ifndef MLR_CDI_YAML_H
#define MLR_CDI_YAML_H

#include "base/error.h"

#include <jansson.h>
#include <stddef.h>

/*
 * Read a document; its bytes may be anything.
 *
 * Nesting ends at 32 levels, and at 200 000 values, where an alias counts as all that it stands
 * for, so that a few lines of aliases of aliases are refused. What an alias stands for is shared:
 * change nothing in it.
 *
 * Returns 0 and a value to json_decref(); -EPROTO naming the line, also for a key that stands
 * twice, a second document, a tag of somebody's own, text with a NUL; -ENOMEM.
 */
int cdi_yaml_load(const char *text, size_t size, json_t **ret, struct mlr_error *err);

#endif
