/*
 * For tests: does one process see another's memory, as ranks of an MPI program do? Linked
 * statically, to run in any image.
 *
 *   peek show WORD       print "PID ADDRESS" of a word in memory; end with standard input
 *   peek read PID ADDRESS   print the word there, by process_vm_readv(2)
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

static char word[64];

static int show(const char *text)
{
	char byte;

	/* Where Yama restricts it to descendants; elsewhere this fails and is not needed. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	snprintf(word, sizeof(word), "%s", text);
	printf("%ld %p\n", (long)getpid(), (void *)word);
	fflush(stdout);
	return read(0, &byte, 1) < 0;
}

static int look(const char *pid, const char *address)
{
	char got[sizeof(word)] = "";
	struct iovec to = { got, sizeof(got) };
	struct iovec from = { (void *)(uintptr_t)strtoull(address, NULL, 16), sizeof(got) };

	if (process_vm_readv((pid_t)strtol(pid, NULL, 10), &to, 1, &from, 1, 0) != sizeof(got)) {
		perror("process_vm_readv");
		return 1;
	}
	puts(got);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "show") == 0)
		return show(argv[2]);
	if (argc == 4 && strcmp(argv[1], "read") == 0)
		return look(argv[2], argv[3]);
	return 2;
}
