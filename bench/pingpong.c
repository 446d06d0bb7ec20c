/*
 * A ping-pong between two MPI ranks, for bench/mpi. Rank 0 prints half of the round trip of 8 bytes
 * in microseconds and the bandwidth of 4 MiB one way in GB/s, each of the best round: others may
 * use the machine, too.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 21
#define LARGE  (4 << 20)

/* Seconds of one way in the best round of so many round trips. */
static double one_way(int rank, char *buffer, int size, int trips)
{
	double best = 1e9;

	for (int r = 0; r < ROUNDS; r++) {
		double start, took;

		MPI_Barrier(MPI_COMM_WORLD);
		start = MPI_Wtime();
		for (int i = 0; i < trips; i++) {
			if (rank == 0)
				MPI_Send(buffer, size, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
			MPI_Recv(buffer, size, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD,
				MPI_STATUS_IGNORE);
			if (rank == 1)
				MPI_Send(buffer, size, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
		}
		took = (MPI_Wtime() - start) / trips / 2;
		best = took < best ? took : best;
	}
	return best;
}

int main(int argc, char **argv)
{
	int rank, size;
	char *buffer = malloc(LARGE);
	double small, large;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (size != 2 || !buffer) {
		fprintf(stderr, "pingpong: needs two ranks and 4 MiB\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	memset(buffer, rank, LARGE);
	small = one_way(rank, buffer, 8, 500);
	large = one_way(rank, buffer, LARGE, 8);
	if (rank == 0)
		printf("%.3f %.3f\n", small * 1e6, LARGE / large / 1e9);
	MPI_Finalize();
	free(buffer);
	return 0;
}
