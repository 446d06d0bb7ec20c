/*
 * cli: the program mlrun, a file for each command: arguments in, output and exit status out.
 *
 * Only this room prints results and errors and decides exit statuses. It makes two programs:
 * `mlrun`, which links little because `exec` must start in a millisecond, and libexec's
 * `mlrun-pull`, which links curl, libarchive and libcrypto; `mlrun pull` becomes it.
 */
#pragma once

#include "base/base.h"

/* mlrun's own exit statuses, the same as docker(1)'s. */
enum {
	CLI_FAILED = 125,         /* mlrun itself failed; wrong usage too */
	CLI_NOT_EXECUTABLE = 126, /* the command was found but could not be run */
	CLI_NOT_FOUND = 127,      /* the command was not found */
};

/* A command: argv[0] is its name; returns the exit status. */
typedef int (*cli_command)(int argc, char **argv);

int cmd_apptainer(int argc, char **argv);
int cmd_build(int argc, char **argv);
int cmd_config(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_commit(int argc, char **argv);
int cmd_containers(int argc, char **argv);
int cmd_exec(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_gpu(int argc, char **argv);
int cmd_gpu_check(int argc, char **argv);
int cmd_validate(int argc, char **argv);
int cmd_gpu_cdi(int argc, char **argv);
int cmd_gpu_list(int argc, char **argv);
int cmd_gpu_top(int argc, char **argv);
int cmd_images(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_inspect_remote(int argc, char **argv);
int cmd_login(int argc, char **argv);
int cmd_logout(int argc, char **argv);
int cmd_oci(int argc, char **argv);
int cmd_parse_reference(int argc, char **argv);
int cmd_profile(int argc, char **argv);
int cmd_prune(int argc, char **argv);
int cmd_manifest(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_push(int argc, char **argv);
int cmd_pull(int argc, char **argv);
int cmd_rerun(int argc, char **argv);
int cmd_rm(int argc, char **argv);
int cmd_logs(int argc, char **argv);
int cmd_restart(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_service_hold(int argc, char **argv);
int cmd_stop(int argc, char **argv);
int cmd_kill(int argc, char **argv);
int cmd_down(int argc, char **argv);
int cmd_compose(int argc, char **argv);
int cmd_up(int argc, char **argv);
int cmd_wait(int argc, char **argv);
int cmd_rsh(int argc, char **argv);
int cmd_shell(int argc, char **argv);
int cmd_shifter(int argc, char **argv);
int cmd_shifterimg(int argc, char **argv);
int cmd_store(int argc, char **argv);
int cmd_tag(int argc, char **argv);
int cmd_tags(int argc, char **argv);
int cmd_elastic(int argc, char **argv);
int cmd_elastic_top(int argc, char **argv);
int cmd_workers(int argc, char **argv);
int cmd_workers_await(int argc, char **argv);
int cmd_workers_hosts(int argc, char **argv);
int cmd_workers_list(int argc, char **argv);
int cmd_workers_start(int argc, char **argv);

/* Print "mlrun: text" on stderr, a hint on its own line, and return argp_err_exit_status:
 * CLI_FAILED, for Apptainer's command line 255. */
int cli_fail(const struct mlr_error *err);

#define cli_fail_at(err, ...) (mlr_wrap(err, __VA_ARGS__), cli_fail(err))

/* Make usage errors exit with CLI_FAILED, --version print the libraries built in, and exit(3)
 * report failed writes to stdout and exit with CLI_FAILED. */
void cli_init(void);

/* Record that a write to stdout failed with this errno value, for the report at exit. */
void cli_stdout_failed(int code);

/* Become another of mlrun's programs, with mlrun's own argv. Returns CLI_FAILED if that fails. */
int cli_become(const char *program, char **argv);

/*
 * Ends work in an orderly way on SIGINT, SIGTERM and SIGHUP; a second signal kills.
 */

/* The signal received, else 0; working threads read it atomically. */
extern int cli_stop_signal;

/* Catch the signals from now on. Those that the caller ignores (nohup, a script's background job)
 * stay ignored. */
void cli_stop_catch(void);
