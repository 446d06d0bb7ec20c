/*
 * As much of NCCL as the backend cuda calls, for ranks that are threads of one process. A rank may
 * vanish. Communicators do not block: joining and the first sum go on in the background until
 * ncclCommGetAsyncError() has been asked for a while.
 *
 * What a program gets wrong shows: ranks of one GPU, sums of other counts, types or operations on
 * other ranks, memory that is not the device's, calls in the wrong order or before the one before
 * is done, and a communicator that is given back while a captured graph has sums on it abort with a
 * line that says so.
 */
#ifndef CUDA_FAKE_NCCL_H
#define CUDA_FAKE_NCCL_H

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
	ncclSuccess = 0,
	ncclUnhandledCudaError = 1,
	ncclSystemError = 2,
	ncclInternalError = 3,
	ncclInvalidArgument = 4,
	ncclInvalidUsage = 5,
	ncclRemoteError = 6,
	ncclInProgress = 7
} ncclResult_t;

typedef enum { ncclInt32 = 2, ncclFloat = 7, ncclDouble = 8 } ncclDataType_t;
typedef enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 } ncclRedOp_t;
typedef struct ncclComm *ncclComm_t;
typedef struct {
	char internal[128];
} ncclUniqueId;

typedef struct {
	int blocking;
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER \
	{                       \
		1               \
	}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRankConfig(
	ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error);
ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
	ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
const char *ncclGetErrorString(ncclResult_t result);

/* --- for tests --- */

/* The mutex that whoever calls CUDA holds; ranks that wait for each other give it up meanwhile. */
void nccl_fake_lock(pthread_mutex_t *lock);

/* From now on the other ranks are gone: nobody is waited for, and streams with sums stay busy until
 * their communicator is aborted. */
void nccl_fake_alone(int is);

/* This thread's rank, which has joined, is gone: the streams of others, with sums that it has not
 * brought its share to, stay busy until their own rank aborts. */
void nccl_fake_vanish(void);

/* What ncclCommGetAsyncError() tells of every communicator. */
void nccl_fake_break(ncclResult_t error);

/* Communicators that are open, sums that were made (one for all ranks), and aborts, so far. */
int nccl_fake_open(void);
int nccl_fake_sums(void);
int nccl_fake_aborts(void);

#ifdef __cplusplus
}
#endif

#endif
