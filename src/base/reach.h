/*
 * What a stranger's file may ask of the caller's machine. A recipe, the ONBUILD of its base image
 * and a compose file are such files. Every row of the tables that read them (recipe/instruction.c,
 * recipe/run_mount.c, compose/) has one of these, REACH_NOTHING if it names none; docs/trust.md
 * lists the rows.
 */
#pragma once

enum reach {
	REACH_NOTHING,
	REACH_CONTEXT,
	REACH_IMAGES,
	REACH_URLS,
	REACH_NETWORK,
	REACH_SERVERS,
	REACH_CACHES,
	REACH_SECRETS,
	REACH_DEVICES,
	REACH_FILES,
	REACH_VARIABLES,
	REACHES
};

/* The words of docs/trust.md. */
extern const char *const reach_words[REACHES];

/* Receives a row: "RUN --mount", "services.NAME.volumes". */
typedef void (*reach_fn)(void *ctx, const char *row, enum reach reach);
