/*
 * Saying things on stderr. Lower rooms log at debug only (what is odd but harmless may be a
 * warning); cli/ and the mains say the rest. stdout belongs to answers and to the contained program.
 */
#ifndef MLR_BASE_LOG_H
#define MLR_BASE_LOG_H

#include "base/error.h"

enum mlr_level { MLR_ERROR, MLR_WARNING, MLR_INFO, MLR_DEBUG };

/* What is said: this level and those before it. MLR_INFO at start. */
extern enum mlr_level mlr_log_level;

/* Set the program's name that stands before every line, and the level from $MLRUN_LOG
 * (error, warning, info, debug); an unknown value is told and ignored. */
void mlr_log_init(const char *program);

/* "mlrun: words" on stderr, in one write(2), control characters in the words escaped, line ends too
 * but that of a hint. */
void mlr_log(enum mlr_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A failure as an error, and below it the hint that goes with it, if any; escaped as well. */
void mlr_log_error(const struct mlr_error *err);

#define mlr_debug(...) \
	do { \
		if (mlr_log_level >= MLR_DEBUG) \
			mlr_log(MLR_DEBUG, __VA_ARGS__); \
	} while (0)
#define mlr_warning(...) mlr_log(MLR_WARNING, __VA_ARGS__)
#define mlr_info(...)    mlr_log(MLR_INFO, __VA_ARGS__)

#endif
