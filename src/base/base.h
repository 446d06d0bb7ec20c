/*
 * The words that nearly every file speaks: base's own for errors, memory, cleanup, files, lists and
 * messages, and the C library's. What few files need they include themselves.
 */
#pragma once

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fds.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/path.h"
#include "base/temp.h"
#include "base/strv.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
