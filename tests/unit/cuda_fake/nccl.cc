#include <nccl.h>

#include "stand_in.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

/* What a rank brings to a sum. */
struct contribution {
	const void *from;
	void *to;
	size_t count;
	ncclDataType_t type;
	ncclRedOp_t op;
};

/* The ranks of one unique id. */
struct clique {
	int ranks, joined, left;
	std::vector<int> devices;
	std::vector<contribution> brought;
	int waiting;
	unsigned long round;
	bool refused, gone;
	pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
};

struct ncclComm {
	std::shared_ptr<clique> all;
	int rank, device;
	int busy; /* questions to ask until a call is done */
	bool connected;
	/* One more owner for each sum in a captured graph. */
	std::shared_ptr<int> captured = std::make_shared<int>(0);
};

static struct {
	pthread_mutex_t *lock;
	std::map<std::string, std::shared_ptr<clique>> cliques;
	int ids, open, sums, aborts;
	bool alone;
	ncclResult_t error;
} fake;

void nccl_fake_lock(pthread_mutex_t *lock)
{
	fake.lock = lock;
}

void nccl_fake_alone(int is)
{
	fake.alone = is;
}

static thread_local ncclComm_t mine; /* the thread's latest */

void nccl_fake_vanish(void)
{
	mine->all->gone = true;
	pthread_cond_broadcast(&mine->all->changed);
}

void nccl_fake_break(ncclResult_t error)
{
	fake.error = error;
}

int nccl_fake_open(void)
{
	return fake.open;
}

int nccl_fake_sums(void)
{
	return fake.sums;
}

int nccl_fake_aborts(void)
{
	return fake.aborts;
}

const char *ncclGetErrorString(ncclResult_t result)
{
	switch (result) {
	case ncclSuccess:
		return "no error";
	case ncclInvalidUsage:
		return "invalid usage";
	case ncclRemoteError:
		return "remote process exited or there was a network error";
	default:
		return "unhandled system error";
	}
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	memset(id, 0x5a, sizeof(*id));
	snprintf(id->internal, sizeof(id->internal), "unique %d", fake.ids++);
	return ncclSuccess;
}

static bool has_twins(const std::vector<int> &devices)
{
	for (size_t i = 0; i < devices.size(); i++)
		for (size_t k = 0; k < i; k++)
			if (devices[i] == devices[k])
				return true;
	return false;
}

ncclResult_t ncclCommInitRankConfig(
	ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
	std::string key(id.internal, sizeof(id.internal));
	std::shared_ptr<clique> &made = fake.cliques[key], all;

	demand(key.compare(0, 6, "unique") == 0, "a unique id that ncclGetUniqueId() did not give");
	demand(!config->blocking, "a communicator that blocks, for ever if a rank has ended");
	if (!made) {
		made = std::make_shared<clique>();
		made->ranks = made->left = ranks;
		made->devices.resize((size_t)ranks, -1);
		made->brought.resize((size_t)ranks);
	}
	all = made;
	demand(rank >= 0 && rank < ranks && ranks == all->ranks, "ranks that do not fit");
	demand(all->devices[(size_t)rank] < 0, "a rank that joins twice");
	all->devices[(size_t)rank] = cuda_fake_device();
	if (fake.alone)
		all->joined = ranks - 1;
	if (++all->joined == ranks)
		all->refused = !fake.alone && has_twins(all->devices);
	mine = *comm = new ncclComm();
	(*comm)->all = all;
	(*comm)->rank = rank;
	(*comm)->device = cuda_fake_device();
	(*comm)->busy = 2;
	fake.open++;
	return ncclInProgress;
}

static void give_back(ncclComm_t comm)
{
	demand(comm->captured.use_count() == 1,
		"a communicator is given back while a graph has sums on it, which waits for ever");
	fake.open--;
	delete comm;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	demand(!fake.error && !fake.alone && !comm->all->gone && !comm->busy,
		"ncclCommDestroy() waits for ranks that are gone");
	give_back(comm);
	return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	cuda_fake_busy(0);
	fake.aborts++;
	give_back(comm);
	return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
	*error = comm->connected ? fake.error : ncclSuccess;
	if (*error)
		return ncclSuccess;
	if (comm->all->joined < comm->all->ranks)
		*error = ncclInProgress;
	else if (comm->all->refused)
		*error = ncclInvalidUsage;
	else if (comm->busy && --comm->busy)
		*error = ncclInProgress;
	return ncclSuccess;
}

template <class T> static void add_up(const std::vector<contribution> &all)
{
	std::vector<T> sum(all[0].count);

	for (const contribution &c : all)
		for (size_t i = 0; i < c.count; i++)
			sum[i] += ((const T *)c.from)[i];
	for (const contribution &c : all)
		memcpy(c.to, sum.data(), c.count * sizeof(T));
}

static void finish(clique &all)
{
	const contribution &first = all.brought[0];

	for (const contribution &c : all.brought)
		demand(c.count == first.count && c.type == first.type && c.op == first.op,
			"ranks sum what does not match");
	if (first.type == ncclFloat)
		add_up<float>(all.brought);
	else
		add_up<double>(all.brought);
	fake.sums++;
	all.waiting = 0;
	all.round++;
	pthread_cond_broadcast(&all.changed);
}

/* The sum itself, when the stream comes to it. */
static void meet(const std::shared_ptr<clique> &all, int rank, const contribution &mine)
{
	unsigned long round = all->round;

	if (fake.alone || all->gone) {
		cuda_fake_busy(-1);
		return;
	}
	all->brought[(size_t)rank] = mine;
	if (++all->waiting == all->ranks) {
		finish(*all);
		return;
	}
	while (all->round == round && !all->gone)
		pthread_cond_wait(&all->changed, fake.lock);
	if (all->round == round)
		cuda_fake_busy(-1);
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
	ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = count * (type == ncclDouble ? 8 : 4);
	contribution mine = { from, to, count, type, op };
	std::shared_ptr<clique> all = comm->all;
	std::shared_ptr<int> captured = comm->captured;
	int rank = comm->rank;

	demand(!comm->busy, "a sum before the call before it is done");
	demand(stream != NULL, "a sum on the default stream, which can't be captured");
	demand(count > 0 && op == ncclSum, "a sum of nothing, or another operation");
	demand(type == ncclFloat || type == ncclDouble, "a sum of a type that is not played");
	demand(cuda_fake_is_device(from, bytes) && cuda_fake_is_device(to, bytes),
		"a sum of memory that is not the device's");
	demand(cuda_fake_device() == comm->device,
		"a sum on another device than the communicator's");
	cuda_on_cpu_submit(stream, [=]() {
		(void)captured;
		meet(all, rank, mine);
	});
	/* The first sum connects the ranks, in the background. */
	comm->busy = comm->connected ? 0 : 2;
	comm->connected = true;
	return comm->busy ? ncclInProgress : ncclSuccess;
}
