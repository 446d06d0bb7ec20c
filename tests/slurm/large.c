/*
 * For tests: messages large enough for Open MPI's shared-memory transport to read the other rank's
 * memory instead of copying (btl/vader's single-copy mechanism). Every rank prints its namespaces;
 * rank 0 prints "large messages passed" when all data came right.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COUNT (4 << 20) /* ints: 16 MiB */

static void tell_namespaces(int rank)
{
	char user[64] = "", mnt[64] = "";

	if (readlink("/proc/self/ns/user", user, sizeof(user) - 1) > 0 &&
		readlink("/proc/self/ns/mnt", mnt, sizeof(mnt) - 1) > 0)
		printf("rank %d namespaces %s %s\n", rank, user, mnt);
	fflush(stdout);
}

static int exchange(int rank, int size, int *out, int *in)
{
	int wrong = 0, left = (rank + size - 1) % size;

	for (int i = 0; i < COUNT; i++)
		out[i] = rank * 7 + i;
	MPI_Sendrecv(out, COUNT, MPI_INT, (rank + 1) % size, 0, in, COUNT, MPI_INT, left, 0,
		MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < COUNT; i++)
		wrong += in[i] != left * 7 + i;
	MPI_Allreduce(out, in, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < COUNT; i++)
		wrong += in[i] != 7 * size * (size - 1) / 2 + size * i;
	return wrong;
}

int main(int argc, char **argv)
{
	int rank, size, wrong, all;
	int *out = malloc(COUNT * sizeof(int)), *in = malloc(COUNT * sizeof(int));

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	tell_namespaces(rank);
	wrong = !out || !in || exchange(rank, size, out, in);
	MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%s with %d ranks\n",
			all ? "large messages came wrong" : "large messages passed", size);
	MPI_Finalize();
	return all != 0;
}
