/*
 * For tests: an image's MPI library that works nowhere. It has what tests/slurm/large.c takes of
 * Open MPI or MPICH, so that the program loads, and says whose it is.
 */
#include <stdio.h>
#include <unistd.h>

char ompi_mpi_comm_world[512], ompi_mpi_int[512], ompi_mpi_op_sum[512];

int MPI_Init(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	printf("the image's MPI\n");
	fflush(stdout);
	_exit(3);
}

#define STUB(name)        \
	int name(void);   \
	int name(void)    \
	{                 \
		return 1; \
	}
STUB(MPI_Comm_rank)
STUB(MPI_Comm_size)
STUB(MPI_Sendrecv)
STUB(MPI_Allreduce)
STUB(MPI_Finalize)
