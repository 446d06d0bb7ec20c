/* The fake root's supervisor: receives system calls and answers them. */
#include "fakeroot/asked.h"

#include "fakeroot/rights.h"

#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

/* Newer than some of the headers that we build with. */
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS      SECCOMP_IOW(4, __u64)
#endif

int asked_answer(struct asked *a)
{
	if (a->what == FAKEROOT_NOTHING)
		return asked_pass(a);
	if (!fakeroot_rights_reach(a))
		return -EACCES;
	if (a->what <= FAKEROOT_EXECVEAT)
		return fakeroot_identity_answer(a);
	if (a->what < FAKEROOT_OPEN)
		return fakeroot_files_answer(a);
	if (a->what < FAKEROOT_LINK)
		return fakeroot_create_answer(a);
	if (a->what < FAKEROOT_CAPSET)
		return fakeroot_rights_answer(a);
	if (a->what == FAKEROOT_CAPSET)
		return 0;
	if (a->what == FAKEROOT_CHROOT) {
		asked_roots_differ();
		fakeroot_ways_forget(1);
	}
	return asked_pass(a);
}

/* --- the process, by its number ---------------------------------------------------- */

static ssize_t read_memory(const struct asked *a, uint64_t at, void *buf, size_t len)
{
	struct iovec mine = { buf, len }, its = { (void *)(uintptr_t)at, len };
	ssize_t n = process_vm_readv(a->pid, &mine, 1, &its, 1, 0);

	return n < 0 ? -errno : n;
}

static ssize_t write_memory(const struct asked *a, uint64_t at, const void *buf, size_t len)
{
	struct iovec mine = { (void *)(uintptr_t)buf, len }, its = { (void *)(uintptr_t)at, len };
	ssize_t n = process_vm_writev(a->pid, &mine, 1, &its, 1, 0);

	return n < 0 ? -errno : n;
}

static int waits(const struct asked *a)
{
	return ioctl(*(const int *)a->reach->ctx, SECCOMP_IOCTL_NOTIF_ID_VALID, &a->id) == 0;
}

static int give(const struct asked *a, int fd, int cloexec)
{
	struct seccomp_notif_addfd add = {
		.id = a->id, .srcfd = (uint32_t)fd, .newfd_flags = cloexec ? O_CLOEXEC : 0
	};
	int r = ioctl(*(const int *)a->reach->ctx, SECCOMP_IOCTL_NOTIF_ADDFD, &add);

	return r < 0 ? -errno : r;
}

/* --- notifications ------------------------------------------------------------------- */

struct supervisor {
	int listener;
	struct asked_reach reach;
	struct seccomp_notif *req;
	size_t req_size;
	struct seccomp_notif_resp *resp;
};

/* Receive a call and answer it. Returns 0, or -errno if there is nothing more to answer. */
static int one(struct supervisor *s)
{
	struct asked a = { .reach = &s->reach, .data = &s->req->data };
	int r;

	memset(s->req, 0, s->req_size);
	if (ioctl(s->listener, SECCOMP_IOCTL_NOTIF_RECV, s->req) < 0)
		return errno == EINTR || errno == ENOENT ? 0 : -errno;
	a.id = s->req->id;
	a.pid = (pid_t)s->req->pid;
	a.what = fakeroot_call_of(a.data->arch, a.data->nr);
	r = asked_answer(&a);
	s->resp->id = a.id;
	s->resp->val = r < 0 ? 0 : r;
	s->resp->error = r < 0 ? r : 0;
	s->resp->flags = 0;
	if (a.pass) {
		s->resp->val = s->resp->error = 0;
		s->resp->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	}
	/* -ENOENT: the process was killed meanwhile. */
	(void)ioctl(s->listener, SECCOMP_IOCTL_NOTIF_SEND, s->resp);
	return 0;
}

/* End this process when no other is left whose calls it could answer. Older kernels would let it
 * wait for calls forever (before Linux 6.11), and poll(2) before each call takes time. */
static void *end_with_the_last(void *listener)
{
	struct pollfd p = { *(const int *)listener, 0, 0 };

	while (poll(&p, 1, -1) < 0 || !(p.revents & (POLLHUP | POLLERR)))
		;
	_exit(0);
}

static int watch(struct supervisor *s)
{
	pthread_attr_t small;
	pthread_t thread;
	int r;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	r = pthread_create(&thread, &small, end_with_the_last, &s->listener);
	pthread_attr_destroy(&small);
	return -r;
}

void fakeroot_answer(int listener, int owners)
{
	struct seccomp_notif_sizes sizes = { 0 };
	struct supervisor s = { listener, { read_memory, write_memory, waits, give, &listener },
		NULL, 0, NULL };
	size_t resp_size;

	if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0)
		return;
	s.req_size = sizes.seccomp_notif > sizeof(*s.req) ? sizes.seccomp_notif : sizeof(*s.req);
	resp_size = sizes.seccomp_notif_resp > sizeof(*s.resp) ? sizes.seccomp_notif_resp
							       : sizeof(*s.resp);
	/* Run on the caller's processor, which waits anyway (Linux 6.6): a stat then takes 12 us
	 * instead of 70. */
	(void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
	fakeroot_records_open(owners);
	s.req = xcalloc(1, s.req_size);
	s.resp = xcalloc(1, resp_size);
	if (watch(&s) < 0)
		return;
	while (one(&s) == 0)
		;
}
