/* The expansion of variables in recipes: two lines of input are a value and the text. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "recipe/expand.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *get(void *ctx, const char *name)
{
	return strcmp(name, "V") == 0 ? ctx : strcmp(name, "E") == 0 ? "" : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_free char *value = xstrndup((const char *)data, size);
	char *text = strchr(value, '\n');

	if (!text || size > 4096)
		return 0;
	*text++ = '\0';
	for (unsigned flags = 0; flags < 16; flags++) {
		const struct expand e = { '\\', flags, get, value };
		auto_strv struct strv words = STRV_INIT;
		auto_free char *word = NULL;
		struct mlr_error err = MLR_ERROR_INIT;

		if (expand_word(&e, text, &word, &err) < 0 && !*err.text)
			abort();
		if (word && strlen(word) > EXPAND_MAX)
			abort();
		(void)expand_words(&e, text, &words, &err);
		for (size_t i = 0; i < words.n; i++)
			if (!*words.v[i])
				abort();
	}
	return 0;
}
