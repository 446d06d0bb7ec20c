/*
 * Messages on stderr. Lower rooms log at debug only (what is odd but harmless may be a warning);
 * cli/ and the mains log the rest. stdout belongs to answers and to the contained program.
 */
#pragma once

#include "base/error.h"

enum mlr_level { MLR_ERROR, MLR_WARNING, MLR_INFO, MLR_DEBUG };

/* Messages of this level and more severe ones are printed. MLR_INFO at start. */
extern enum mlr_level mlr_log_level;

/* Set the program's name, which begins every line, and the level from $MLRUN_LOG (error, warning,
 * info, debug); an unknown value gives a warning. */
void mlr_log_init(const char *program);

/* Print "mlrun: words" on stderr, in one write(2). Escapes control characters, also newlines. */
void mlr_log(enum mlr_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * Print a failure followed by then ("", or such as ", ignoring"), and its hints below; escaped as
 * well.
 */
void mlr_log_failure(enum mlr_level level, const struct mlr_error *err, const char *then);
#define mlr_log_error(err) mlr_log_failure(MLR_ERROR, err, "")

#define mlr_debug(...)                                   \
	do {                                             \
		if (mlr_log_level >= MLR_DEBUG)          \
			mlr_log(MLR_DEBUG, __VA_ARGS__); \
	} while (0)
#define mlr_warning(...) mlr_log(MLR_WARNING, __VA_ARGS__)
#define mlr_info(...)    mlr_log(MLR_INFO, __VA_ARGS__)
