#include "unit.h"
#include "base/hash.h"
#include "base/log.h"
#include "oci/digest.h"
#include "store/blob.h"
#include "store/facts.h"
#include "store/hold.h"
#include "store/image.h"
#include "store/lease.h"
#include "store/lock.h"
#include "store/process.h"
#include "store/tree.h"
#include "scratch.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define FACTS_A "facts/" HEX_A ".json"
#define LEASE_A "leases/" HEX_A

static struct oci_ref ref_of(const char *text)
{
	struct oci_ref ref = { 0 };

	ok(oci_ref_parse(text, &ref, &err));
	return ref;
}

/* The number of names in a directory of the store. */
static int count(const char *path)
{
	int fd = openat(store_fd(st), path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), n = 0;
	DIR *d = fdopendir(fd);
	struct dirent *e;

	assert_non_null(d);
	while ((e = readdir(d)))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static int is_there(const char *path)
{
	return faccessat(store_fd(st), path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void make_layer(const char *diff_id)
{
	struct store_tree *t = NULL;
	int r = store_tree_begin(st, STORE_LAYER, diff_id, &t, &err);

	ok(r);
	if (r == 0) {
		ok(file_replace(store_tree_fd(t), "file", diff_id, strlen(diff_id), 0644, &err));
		ok(store_tree_note(t, "implicit", "usr", 4, &err));
		ok(store_tree_publish(t, &err));
	}
}

/* An image as pull leaves it: trees, documents, facts, and last the name. */
static void make_image(
	const char *name, const char *manifest, const char *index, const char *l1, const char *l2)
{
	auto_call(store_facts_done) struct store_facts f = { 0 };
	auto_call(oci_ref_done) struct oci_ref ref = ref_of(name);
	auto_free char *canonical = oci_ref_canonical(&ref);
	struct store_image im = { canonical, (char *)manifest, (char *)index, "linux/amd64", 1234,
		99 };

	make_layer(l1);
	make_layer(l2);
	f.config.os = xstrdup("linux");
	f.config.architecture = xstrdup("amd64");
	f.config.working_dir = xstrdup("/work");
	strv_add(&f.config.env, "PATH=/bin");
	strv_add(&f.config.cmd, "true");
	strv_add(&f.config.diff_ids, l1);
	strv_add(&f.config.diff_ids, l2);
	f.formats = STORE_FORMAT_LAYERS;
	ok(store_facts_put(st, manifest, &f, &err));
	ok(store_image_put(st, &im, &err));
}

static int remove_as(const char *name, enum store_remove_how how)
{
	auto_call(oci_ref_done) struct oci_ref ref = ref_of(name);

	return store_image_remove(st, &ref, how, NULL, &err);
}

static int remove_image(const char *name)
{
	return remove_as(name, STORE_REMOVE_UNUSED);
}

/* An empty file "<what>.<process>", and its path. */
static void leave(const char *what, const struct store_process *p, char path[280])
{
	char who[STORE_PROCESS_NAME];

	store_process_name(p, who);
	snprintf(path, 280, "%s.%s", what, who);
	ok(file_replace(store_fd(st), path, "", 0, 0644, &err));
}

static int find(const char *name, struct store_image *ret)
{
	auto_call(oci_ref_done) struct oci_ref ref = ref_of(name);

	return store_image_find(st, &ref, ret, &err);
}

static void a_store_is_made_once_and_found_again(void **state)
{
	auto_store struct store *again = NULL;

	ok(store_open(dir, 0, &again, &err));
	assert_string_equal(store_path(again), dir);
}

static void a_store_that_is_not_there_is_only_made_when_asked(void **state)
{
	auto_store struct store *s = NULL;
	auto_free char *path = xasprintf("%s/no/such", dir);

	assert_int_equal(store_open(path, 0, &s, &err), -ENOENT);
	says("no/such'");
	ok(store_open(path, 1, &s, &err));
}

static void the_place_of_the_store_follows_the_environment(void **state)
{
	auto_free char *xdg = xasprintf("%s/xdg", dir), *want = xasprintf("%s/xdg/mlrun", dir);
	struct store *s = NULL;

	unsetenv("MLRUN_STORE");
	setenv("XDG_DATA_HOME", xdg, 1);
	ok(store_open(NULL, 1, &s, &err));
	assert_string_equal(store_path(s), want);
	store_close(s);
	setenv("MLRUN_STORE", dir, 1);
	ok(store_open(NULL, 0, &s, &err));
	assert_string_equal(store_path(s), dir);
	store_close(s);
	unsetenv("MLRUN_STORE");
	unsetenv("XDG_DATA_HOME");
}

static void a_store_of_a_newer_format_is_refused(void **state)
{
	auto_store struct store *s = NULL;

	ok(file_replace(store_fd(st), "version", "4\n", 2, 0644, &err));
	assert_int_equal(store_open(dir, 1, &s, &err), -ENOTSUP);
	says("has format 4, this mlrun knows formats up to 3");
	says("hint: use the newer mlrun");
	ok(file_replace(store_fd(st), "version", "?", 1, 0644, &err));
	assert_int_equal(store_open(dir, 1, &s, &err), -EPROTO);
}

static void a_directory_with_other_things_in_it_is_not_taken_over(void **state)
{
	auto_store struct store *s = NULL;
	auto_free char *path = xasprintf("%s/home", dir);

	ok(mkdir(path, 0755));
	ok(file_replace(store_fd(st), "home/thesis.tex", "x", 1, 0644, &err));
	for (int create = 0; create < 2; create++) {
		assert_int_equal(store_open(path, create, &s, &err), -ENOTEMPTY);
		says("is not a store of images and not empty ('thesis.tex')");
	}
}

static void a_directory_with_hidden_files_is_not_empty(void **state)
{
	auto_store struct store *s = NULL;
	auto_free char *path = xasprintf("%s/home", dir);

	ok(mkdir(path, 0755));
	ok(mkdirat(store_fd(st), "home/.ssh", 0700));
	assert_int_equal(store_open(path, 1, &s, &err), -ENOTEMPTY);
	says(".ssh");
	ok(unlinkat(store_fd(st), "home/.ssh", AT_REMOVEDIR));
	ok(mkdirat(store_fd(st), "home/lost+found", 0700)); /* mkfs.ext4 made it */
	ok(store_open(path, 1, &s, &err));
}

static void an_empty_name_is_no_store(void **state)
{
	auto_store struct store *s = NULL;

	assert_int_equal(store_open("", 1, &s, &err), -EINVAL);
	says("the store's name is empty\nhint: name a directory with --store");
}

static void nobody_adds_to_the_store_of_another_user(void **state)
{
	struct store *s = NULL;

	if (geteuid() != 0) { /* root's own directories serve as well */
		assert_int_equal(store_open("/", 1, &s, &err), -EACCES);
		says("store '/' belongs to user ");
		return;
	}
	ok(chown(dir, 54321, 54321));
	assert_int_equal(store_open(dir, 1, &s, &err), -EACCES);
	says("' belongs to user #54321, who alone may add to it\nhint: sudo -u '#54321' mlrun");
	ok(store_open(dir, 0, &s, &err)); /* reading is fine */
	store_close(s);
}

static void a_blob_comes_back_and_one_of_other_bytes_is_refused(void **state)
{
	auto_free char *got = NULL;
	char digest[OCI_DIGEST_SIZE] = "sha256:", path[100];
	size_t len;

	hash_buffer("hello", 5, digest + 7);
	assert_int_equal(store_blob_get(st, digest, &got, &len, &err), -ENOENT);
	assert_int_equal(store_blob_put(st, digest, "hallo", 5, &err), -EBADMSG);
	says("its 5 bytes hash to sha256:");
	ok(store_blob_put(st, digest, "hello", 5, &err));
	ok(store_blob_put(st, digest, "hello", 5, &err));
	ok(store_blob_get(st, digest, &got, &len, &err));
	assert_int_equal(len, 5);
	assert_string_equal(got, "hello");

	snprintf(path, sizeof(path), "blobs/sha256/%s", digest + 7);
	ok(file_replace(store_fd(st), path, "hallo", 5, 0644, &err));
	free(take_ptr(&got));
	assert_int_equal(store_blob_get(st, digest, &got, &len, &err), -EBADMSG);
	ok(store_blob_put(st, digest, "hello", 5, &err)); /* putting repairs */
	ok(store_blob_get(st, digest, &got, &len, &err));
	assert_int_equal(store_blob_put(st, "sha256:../../etc/passwd", "x", 1, &err), -EINVAL);
}

static void a_named_image_is_found_with_all_that_was_said_of_it(void **state)
{
	auto_call(store_image_done) struct store_image im = { 0 };
	auto_call(store_facts_done) struct store_facts f = { 0 };

	assert_int_equal(find("debian:12", &im), -ENOENT);
	says("image 'docker.io/library/debian:12' is not in store");
	says("hint: mlrun images lists");
	make_image("debian:12", MANIFEST_A, MANIFEST_B, LAYER_1, LAYER_2);
	ok(find("docker.io/library/debian:12", &im));
	assert_string_equal(im.name, "docker.io/library/debian:12");
	assert_string_equal(im.manifest, MANIFEST_A);
	assert_string_equal(im.index, MANIFEST_B);
	assert_string_equal(im.platform, "linux/amd64");
	assert_int_equal(im.size, 1234);
	assert_int_equal(im.pulled, 99);
	ok(store_facts_get(st, im.manifest, &f, &err));
	assert_string_equal(f.config.working_dir, "/work");
	assert_string_equal(f.config.env.v[0], "PATH=/bin");
	assert_string_equal(f.config.diff_ids.v[1], LAYER_2);
	assert_null(f.config.user);
	assert_int_equal(f.formats, STORE_FORMAT_LAYERS);
}

static void a_digest_finds_the_image_by_its_manifest_or_index(void **state)
{
	static const char *const good[] = { "debian@" MANIFEST_A, "debian@" MANIFEST_B,
		"debian:12@" MANIFEST_B };

	make_image("debian:12", MANIFEST_A, MANIFEST_B, LAYER_1, LAYER_2);
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		auto_call(store_image_done) struct store_image im = { 0 };

		ok(find(good[i], &im));
		assert_string_equal(im.name, "docker.io/library/debian:12");
	}
	auto_call(store_image_done) struct store_image im = { 0 };

	assert_int_equal(find("ubuntu@" MANIFEST_A, &im), -ENOENT); /* another repository */
	assert_int_equal(find("debian@" LAYER_1, &im), -ENOENT);
}

static void a_name_for_an_image_that_is_not_whole_is_refused(void **state)
{
	auto_call(store_facts_done) struct store_facts f = { 0 };
	struct store_image im = { "docker.io/library/x:1", MANIFEST_A, NULL, "linux/amd64", 0, 0 };

	assert_int_equal(store_image_put(st, &im, &err), -ENOENT);
	f.config.os = xstrdup("linux");
	f.config.architecture = xstrdup("amd64");
	strv_add(&f.config.diff_ids, LAYER_1);
	ok(store_facts_put(st, MANIFEST_A, &f, &err));
	assert_int_equal(store_image_put(st, &im, &err), -ENOENT);
	says("name no format");
	f.formats = STORE_FORMAT_LAYERS;
	ok(store_facts_put(st, MANIFEST_A, &f, &err));
	assert_int_equal(store_image_put(st, &im, &err), -ENOENT);
	says("layer " LAYER_1 " is not in the store");
	f.formats = STORE_FORMAT_DIR;
	ok(store_facts_put(st, MANIFEST_A, &f, &err));
	assert_int_equal(store_image_put(st, &im, &err), -ENOENT);
}

/* On FUSE file systems that keep paths, a file that is being replaced is missing for a moment. */
static void facts_that_are_there_are_dated_anew_not_replaced(void **state)
{
	static const struct timespec old[2] = { { 1000, 0 }, { 1000, 0 } };
	auto_call(store_facts_done) struct store_facts f = { 0 };
	struct stat before, after;

	f.config.os = xstrdup("linux");
	f.config.architecture = xstrdup("amd64");
	f.formats = STORE_FORMAT_DIR;
	ok(store_facts_put(st, MANIFEST_A, &f, &err));
	assert_int_equal(fstatat(store_fd(st), FACTS_A, &before, 0), 0);
	assert_int_equal(utimensat(store_fd(st), FACTS_A, old, 0), 0);
	ok(store_facts_put(st, MANIFEST_A, &f, &err));
	assert_int_equal(fstatat(store_fd(st), FACTS_A, &after, 0), 0);
	assert_int_equal(after.st_ino, before.st_ino);
	assert_true(after.st_mtime >= before.st_mtime);
	f.formats |= STORE_FORMAT_SQUASHFS;
	ok(store_facts_put(st, MANIFEST_A, &f, &err));
	assert_int_equal(fstatat(store_fd(st), FACTS_A, &after, 0), 0);
	assert_int_not_equal(after.st_ino, before.st_ino);
}

/* Simulates that: a name that is listed but cannot be opened is a link without a target. */
static void *put_back(void *store)
{
	const struct timespec later = { 0, 300000000 };
	int fd = store_fd(store);

	nanosleep(&later, NULL);
	assert_int_equal(renameat(fd, "facts/away", fd, "facts/there"), 0);
	return NULL;
}

static void a_document_that_is_being_replaced_is_waited_for(void **state)
{
	auto_call(store_facts_done) struct store_facts f = { 0 };
	pthread_t thread;

	make_image("a:1", MANIFEST_A, NULL, LAYER_1, LAYER_2);
	assert_int_equal(renameat(store_fd(st), FACTS_A, store_fd(st), "facts/away"), 0);
	assert_int_equal(symlinkat("there", store_fd(st), FACTS_A), 0);
	assert_int_equal(pthread_create(&thread, NULL, put_back, st), 0);
	ok(store_facts_get(st, MANIFEST_A, &f, &err));
	pthread_join(thread, NULL);

	assert_int_equal(unlinkat(store_fd(st), FACTS_A, 0), 0);
	assert_int_equal(store_facts_get(st, MANIFEST_A, &f, &err), -ENOENT);
}

static void facts_of_the_first_version_are_understood(void **state)
{
	static const char *const old[] = {
		"{\"os\":\"l\",\"architecture\":\"a\",\"one_tree\":false}",
		"{\"os\":\"l\",\"architecture\":\"a\",\"one_tree\":true}"
	};

	for (size_t i = 0; i < ARRAY_LEN(old); i++) {
		auto_call(store_facts_done) struct store_facts f = { 0 };

		ok(file_replace(store_fd(st), FACTS_A, old[i], strlen(old[i]), 0644, &err));
		ok(store_facts_get(st, MANIFEST_A, &f, &err));
		assert_int_equal(f.formats, i ? STORE_FORMAT_DIR : STORE_FORMAT_LAYERS);
	}
}

static void make_squash(const char *manifest)
{
	struct store_tree *t = NULL;

	assert_int_equal(store_tree_begin(st, STORE_SQUASH, manifest, &t, &err), 0);
	assert_int_equal(write(store_tree_fd(t), "hsqs", 4), 4);
	assert_false(store_tree_exists(st, STORE_SQUASH, manifest));
	ok(store_tree_publish(t, &err));
}

static void a_squashfs_file_is_published_at_once_and_removed_with_its_image(void **state)
{
	auto_call(store_facts_done) struct store_facts f = { 0 };
	auto_free char *path = store_tree_relpath(STORE_SQUASH, MANIFEST_A), *text = NULL;
	struct store_tree *t = NULL;

	make_image("debian:12", MANIFEST_A, NULL, LAYER_1, LAYER_2);
	ok(store_facts_get(st, MANIFEST_A, &f, &err));
	assert_false(store_facts_whole(st, MANIFEST_A, &f, STORE_FORMAT_SQUASHFS, NULL));
	assert_int_equal(store_tree_begin(st, STORE_SQUASH, MANIFEST_A, &t, &err), 0);
	store_tree_drop(t);
	assert_false(store_tree_exists(st, STORE_SQUASH, MANIFEST_A));
	make_squash(MANIFEST_A);
	assert_true(store_facts_whole(st, MANIFEST_A, &f, STORE_FORMAT_SQUASHFS, NULL));
	assert_int_equal(store_tree_begin(st, STORE_SQUASH, MANIFEST_A, &t, &err), 1);
	assert_string_equal(path,
		"squash/"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		".sqfs");
	ok(file_read(store_fd(st), path, 100, &text, NULL, &err));
	assert_string_equal(text, "hsqs");
	ok(remove_image("debian:12"));
	assert_false(store_tree_exists(st, STORE_SQUASH, MANIFEST_A));
}

static void images_are_listed_in_order_of_their_names(void **state)
{
	struct store_image *v;
	size_t n;

	ok(store_image_list(st, &v, &n, &err));
	assert_int_equal(n, 0);
	store_images_free(v, n);
	make_image("zoo:1", MANIFEST_A, NULL, LAYER_1, LAYER_2);
	make_image("ant:1", MANIFEST_B, NULL, LAYER_1, LAYER_3);
	ok(file_replace(store_fd(st), "images/left.json.12.1.tmp", "{", 1, 0644, &err));
	ok(store_image_list(st, &v, &n, &err));
	assert_int_equal(n, 2);
	assert_string_equal(v[0].name, "docker.io/library/ant:1");
	assert_string_equal(v[1].name, "docker.io/library/zoo:1");
	store_images_free(v, n);
}

static void a_removed_image_takes_along_only_what_no_other_needs(void **state)
{
	auto_call(store_image_done) struct store_image im = { 0 };

	make_image("a:1", MANIFEST_A, NULL, LAYER_1, LAYER_2);
	make_image("b:1", MANIFEST_B, NULL, LAYER_1, LAYER_3);
	ok(remove_image("a:1"));
	assert_int_equal(find("a:1", &im), -ENOENT);
	assert_true(store_tree_exists(st, STORE_LAYER, LAYER_1));
	assert_false(store_tree_exists(st, STORE_LAYER, LAYER_2));
	assert_true(store_tree_exists(st, STORE_LAYER, LAYER_3));
	ok(remove_image("b:1"));
	assert_int_equal(count("layers"), 0);
	assert_int_equal(count("facts"), 0);
	assert_int_equal(count("images"), 0);
	assert_int_equal(count("tmp"), 0);
	assert_int_equal(remove_image("b:1"), -ENOENT);
}

static void a_second_name_keeps_the_image(void **state)
{
	auto_call(store_image_done) struct store_image im = { 0 };

	make_image("a:1", MANIFEST_A, NULL, LAYER_1, LAYER_2);
	make_image("a:latest", MANIFEST_A, NULL, LAYER_1, LAYER_2);
	ok(remove_image("a:1"));
	ok(find("a:latest", &im));
	assert_true(store_tree_exists(st, STORE_LAYER, LAYER_1));
	ok(remove_image("a:latest"));
	assert_int_equal(count("layers"), 0);
}

/* A child that does this and waits to be killed. */
static pid_t child_that(int (*act)(void))
{
	int ready[2];
	char c;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork_child();
	if (pid == 0) {
		c = act() == 0 ? 'y' : 'n';
		if (write(ready[1], &c, 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	assert_int_equal(c, 'y');
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static int take_lease(void)
{
	return store_lease_take(st, MANIFEST_A, NULL);
}

static void reap(pid_t pid, int sig)
{
	kill(pid, sig);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void an_image_whose_name_was_given_to_a_newer_one_goes_with_the_next(void **state)
{
	pid_t pid;

	make_image("a:latest", MANIFEST_A, NULL, LAYER_1, LAYER_2);
	make_image("a:latest", MANIFEST_B, NULL, LAYER_1, LAYER_3);
	make_image("c:1", LAYER_3, NULL, LAYER_1, LAYER_3); /* any digest serves as a manifest's */
	pid = child_that(take_lease);
	ok(remove_image("c:1"));
	assert_true(store_tree_exists(st, STORE_LAYER, LAYER_2)); /* still in use */
	reap(pid, SIGKILL);
	ok(remove_image("a:latest"));
	assert_int_equal(count("layers"), 0);
	assert_int_equal(count("facts"), 0);
}

static void documents_go_with_their_last_image(void **state)
{
	static const char config[] = "{}";
	char config_digest[OCI_DIGEST_SIZE] = "sha256:",
	     manifest[2][OCI_DIGEST_SIZE] = { "sha256:", "sha256:" };

	hash_buffer(config, strlen(config), config_digest + 7);
	ok(store_blob_put(st, config_digest, config, strlen(config), &err));
	for (int i = 0; i < 2; i++) { /* two manifests, one configuration */
		auto_free char *doc =
			xasprintf("{\"n\":%d,\"config\":{\"digest\":\"%s\"}}", i, config_digest);

		hash_buffer(doc, strlen(doc), manifest[i] + 7);
		ok(store_blob_put(st, manifest[i], doc, strlen(doc), &err));
		make_image(i ? "b:1" : "a:1", manifest[i], NULL, LAYER_1, LAYER_2);
	}
	ok(remove_image("a:1"));
	assert_int_equal(count("blobs/sha256"), 2);
	ok(remove_image("b:1"));
	assert_int_equal(count("blobs/sha256"), 0);
}

static void an_image_in_use_is_not_removed_until_its_user_ends(void **state)
{
	auto_call(store_image_done) struct store_image im = { 0 };
	auto_free char *words = NULL;
	struct store_lease l;
	pid_t pid;

	make_image("a:1", MANIFEST_A, NULL, LAYER_1, LAYER_2);
	pid = child_that(take_lease);
	assert_int_equal(store_lease_held(st, MANIFEST_A, &l), 1);
	assert_int_equal(l.pid, pid);
	assert_true(l.here && l.is_running);
	assert_int_equal(remove_image("a:1"), -EBUSY);
	words = xasprintf("image 'docker.io/library/a:1' is in use by process %ld on '%s'",
		(long)pid, l.host);
	says(words);
	assert_int_equal(remove_as("a:1", STORE_REMOVE_FORCE), -EBUSY);
	says(words);
	ok(find("a:1", &im)); /* still whole */
	reap(pid, SIGKILL);
	assert_int_equal(store_lease_held(st, MANIFEST_A, &l), 0);
	assert_int_equal(count("leases"), 0);
	ok(remove_image("a:1"));
}

static void a_lease_of_an_earlier_boot_or_a_reused_pid_is_dead(void **state)
{
	struct store_process self;
	char path[280];
	struct store_lease l;

	ok(store_process_self(&self));
	self.start++; /* the pid is ours, the process was another */
	leave(LEASE_A, &self, path);
	assert_int_equal(store_lease_held(st, MANIFEST_A, &l), 0);
	self.start--;
	memset(self.boot, '0', 8);
	leave(LEASE_A, &self, path);
	assert_int_equal(store_lease_held(st, MANIFEST_A, &l), 0);
	assert_int_equal(count("leases"), 0);
}

static void a_lease_of_another_host_counts_for_seven_days(void **state)
{
	struct store_process self;
	char path[280];
	struct timespec old[2];
	struct store_lease l;

	ok(store_process_self(&self));
	strcpy(self.host, "node17.cluster.example");
	leave(LEASE_A, &self, path);
	assert_int_equal(store_lease_held(st, MANIFEST_A, &l), 1);
	assert_string_equal(l.host, "node17.cluster.example");
	assert_false(l.here || l.is_running);
	old[0].tv_sec = old[1].tv_sec = time(NULL) - 8 * 24 * 3600;
	old[0].tv_nsec = old[1].tv_nsec = 0;
	assert_int_equal(utimensat(store_fd(st), path, old, 0), 0);
	assert_int_equal(store_lease_held(st, MANIFEST_A, &l), 0);
}

static void a_lease_of_another_pid_namespace_counts_like_one_of_another_host(void **state)
{
	struct store_process self;
	char path[280];
	struct store_lease l;

	ok(store_process_self(&self));
	assert_int_not_equal(self.pid_ns, 0);
	self.pid_ns++;
	self.pid = 4000000; /* no such process here; there may well be one over there */
	leave(LEASE_A, &self, path);
	assert_int_equal(store_lease_held(st, MANIFEST_A, &l), 1);
	assert_int_equal(l.pid, 4000000);
	assert_true(l.here && !l.is_running);
	assert_true(is_there(path));
}

static void what_a_process_out_of_sight_was_started_in_goes_by_force_only(void **state)
{
	struct store_process self;
	char path[280];

	ok(store_process_self(&self));
	strcpy(self.host, "node17.cluster.example");
	self.pid = 4711;
	make_image("a:1", MANIFEST_A, NULL, LAYER_1, LAYER_2);
	leave(LEASE_A, &self, path);
	assert_int_equal(remove_image("a:1"), -EBUSY);
	says("a:1' was in use by process 4711 on 'node17.cluster.example' at 20");
	says("; whether it still runs cannot be seen from here\n"
	     "hint: run mlrun rm on 'node17.cluster.example', or mlrun rm --force");
	assert_true(is_there(path));
	ok(remove_as("a:1", STORE_REMOVE_FORCE));
	assert_int_equal(count("layers"), 0);
	assert_int_equal(count("leases"), 0); /* it would stand in the way of the next one's rm */
}

static void a_lease_on_an_image_that_was_just_removed_fails(void **state)
{
	make_image("a:1", MANIFEST_A, NULL, LAYER_1, LAYER_2);
	ok(remove_image("a:1"));
	assert_int_equal(store_lease_take(st, MANIFEST_A, &err), -ENOENT);
	says("is no longer in store");
	assert_int_equal(count("leases"), 0);
}

static void leases_of_ended_processes_are_swept(void **state)
{
	int dead = 0;

	make_image("a:1", MANIFEST_A, NULL, LAYER_1, LAYER_2);
	for (int i = 0; i < 3; i++) {
		pid_t pid = child_that(take_lease);

		reap(pid, SIGKILL);
		dead = pid % 256 == 0 ? 1 : dead + 1; /* such a start sweeps */
	}
	ok(store_lease_take(st, MANIFEST_A, &err));
	ok(store_lease_take(st, MANIFEST_A, &err)); /* twice by one process is one */
	assert_int_equal(count("leases"), getpid() % 256 == 0 ? 1 : dead + 1);
	store_lease_sweep(st);
	assert_int_equal(count("leases"), 1);
}

/* A child that takes a lease and cleans up, as one start in so many does. */
static void sweep_by_a_start(void)
{
	int status = 1;

	for (int i = 0; i < 2000 && status != 0; i++) {
		pid_t pid = fork_child();

		if (pid == 0)
			_exit(getpid() % 256 != 0 || store_lease_take(st, MANIFEST_A, NULL) < 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
	}
	assert_int_equal(status, 0);
}

static void a_start_that_sweeps_spares_the_leases_of_jobs(void **state)
{
	struct timespec long_ago[2] = { { .tv_sec = time(NULL) - 30 * 24 * 3600 } };
	char path[2][280];
	struct store_process other;

	make_image("a:1", MANIFEST_A, NULL, LAYER_1, LAYER_2);
	ok(store_process_self(&other));
	strcpy(other.host, "elsewhere");
	long_ago[1] = long_ago[0];
	for (int i = 0; i < 2; i++) {
		other.pid++;
		leave(LEASE_A, &other, path[i]);
		ok(file_replace(store_fd(st), path[i], "77.3 -", i ? 6 : 0, 0644, &err));
		assert_int_equal(utimensat(store_fd(st), path[i], long_ago, 0), 0);
	}
	sweep_by_a_start();
	assert_false(is_there(path[0]));
	assert_true(
		is_there(path[1])); /* only squeue could judge it, and a start does not run it */
}

static void a_tree_appears_whole_or_not_at_all(void **state)
{
	struct store_tree *t = NULL;
	auto_close int fd = -1;
	auto_free char *note = NULL, *path = store_tree_relpath(STORE_LAYER, LAYER_1);
	struct stat sb;

	assert_int_equal(store_tree_begin(st, STORE_LAYER, LAYER_1, &t, &err), 0);
	assert_false(store_tree_exists(st, STORE_LAYER, LAYER_1));
	assert_int_equal(fstat(store_tree_fd(t), &sb), 0);
	assert_int_equal(sb.st_mode & 07777, 0755);
	ok(file_replace(store_tree_fd(t), "f", "x", 1, 0644, &err));
	store_tree_drop(t);
	assert_int_equal(count("tmp"), 0);
	assert_int_equal(count("layers"), 0);

	make_layer(LAYER_1);
	assert_true(store_tree_exists(st, STORE_LAYER, LAYER_1));
	assert_int_equal(count("tmp"), 0);
	ok(fd = store_tree_open(st, STORE_LAYER, LAYER_1, &err));
	assert_int_equal(faccessat(fd, "file", F_OK, 0), 0);
	assert_true(is_there(path));
	assert_int_equal(file_read(store_fd(st),
				 "layers/1111111111111111111111111111111111111111111111111"
				 "111111111111111/implicit",
				 10, &note, NULL, &err),
		0);
	assert_int_equal(store_tree_begin(st, STORE_LAYER, LAYER_1, &t, &err), 1);
	assert_int_equal(store_tree_open(st, STORE_LAYER, LAYER_2, &err), -ENOENT);
	assert_int_equal(store_tree_begin(st, STORE_LAYER, "sha256:../x", &t, &err), -EINVAL);
}

/* Two processes want the same tree: the second waits and then finds it. */
static void of_two_producers_the_second_finds_the_tree_of_the_first(void **state)
{
	struct store_tree *t = NULL;
	int status;
	pid_t pid;

	assert_int_equal(store_tree_begin(st, STORE_LAYER, LAYER_1, &t, &err), 0);
	pid = fork_child();
	if (pid == 0) {
		struct store *mine = NULL;
		struct store_tree *u = NULL;

		if (store_open(dir, 0, &mine, NULL) < 0)
			_exit(9);
		_exit(store_tree_begin(mine, STORE_LAYER, LAYER_1, &u, NULL));
	}
	usleep(100000);
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0); /* it waits */
	ok(store_tree_publish(t, &err));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
	assert_int_equal(count("tmp"), 0);
}

static void *begin_same(void *ret)
{
	struct store_tree *t = NULL;
	int r = store_tree_begin(st, STORE_LAYER, LAYER_1, &t, NULL);

	store_tree_drop(t);
	__atomic_store_n((int *)ret, r, __ATOMIC_SEQ_CST);
	return NULL;
}

static void two_threads_are_two_producers(void **state)
{
	struct store_tree *t = NULL, *other = NULL;
	pthread_t thread;
	int r = -1;

	assert_int_equal(store_tree_begin(st, STORE_LAYER, LAYER_1, &t, &err), 0);
	assert_int_equal(
		store_tree_begin(st, STORE_LAYER, LAYER_2, &other, &err), 0); /* no matter */
	assert_int_equal(pthread_create(&thread, NULL, begin_same, &r), 0);
	usleep(50000);
	assert_int_equal(__atomic_load_n(&r, __ATOMIC_SEQ_CST), -1);
	ok(store_tree_publish(t, &err));
	pthread_join(thread, NULL);
	assert_int_equal(r, 1);
	store_tree_drop(other);
}

/* Begin a tree, with a file in it. */
static int begin_tree(void)
{
	struct store *mine = NULL;
	struct store_tree *t = NULL;

	return store_open(dir, 0, &mine, NULL) < 0 ||
		store_tree_begin(mine, STORE_LAYER, LAYER_1, &t, NULL) != 0 ||
		file_replace(store_tree_fd(t), "half", "x", 1, 0644, NULL) < 0;
}

static void a_killed_producers_leavings_are_removed_by_the_next(void **state)
{
	struct store_tree *t = NULL;

	reap(child_that(begin_tree), SIGKILL);
	assert_int_equal(count("layers"), 0);
	assert_int_equal(count("tmp"), 2); /* its work and its lock */
	assert_int_equal(store_tree_begin(st, STORE_LAYER, LAYER_1, &t, &err), 0);
	assert_int_equal(count("tmp"), 2); /* ours */
	assert_int_not_equal(faccessat(store_tree_fd(t), "half", F_OK, 0), 0);
	ok(store_tree_publish(t, &err));
	assert_int_equal(count("tmp"), 0);
}

static void sweeping_spares_the_living(void **state)
{
	pid_t dead, alive;

	ok(mkdirat(store_fd(st), "tmp/trash.elsewhere", 0755)); /* not a name of ours */
	dead = child_that(begin_tree);
	reap(dead, SIGKILL);
	store_sweep(st);
	assert_int_equal(count("tmp"), 1);
	alive = child_that(begin_tree);
	store_sweep(st);
	assert_int_equal(count("tmp"), 3);
	reap(alive, SIGTERM);
	store_sweep(st);
	assert_int_equal(count("tmp"), 1);
}

/* A hold is written in tmp/ before it is renamed to holds/. */
static void sweeping_spares_a_hold_that_is_about_to_appear(void **state)
{
	struct store_process self;
	char path[280];

	ok(store_process_self(&self));
	leave("tmp/hold.a-0123456789abcdef", &self, path);
	store_sweep(st);
	assert_int_equal(count("tmp"), 1);
	self.start++; /* a killed process */
	leave("tmp/hold.a-0123456789abcdef", &self, path);
	store_sweep(st);
	assert_int_equal(count("tmp"), 1);
}

static void trash_and_trials_of_ended_processes_are_swept(void **state)
{
	struct store_process self;
	char path[280];

	ok(store_process_self(&self));
	self.start++; /* the pid is ours, the process was another */
	leave("tmp/trash.1", &self, path);
	leave("tmp/probe.1", &self, path);
	self.start--;
	leave("tmp/trash.2", &self, path);
	self.pid_ns++;
	leave("tmp/trash.3", &self, path);
	store_sweep(st);
	assert_int_equal(count("tmp"), 2);
}

static void a_wait_that_gets_long_names_whom_it_waits_for(void **state)
{
	auto_free char *words = NULL;
	char said[512] = "";
	int out[2], saved = dup(2), r;
	pthread_t thread;
	pid_t pid = child_that(begin_tree);

	assert_int_equal(pipe(out), 0);
	dup2(out[1], 2);
	assert_int_equal(pthread_create(&thread, NULL, begin_same, &r), 0);
	assert_true(read(out[0], said, sizeof(said) - 1) > 0);
	dup2(saved, 2);
	reap(pid, SIGKILL);
	pthread_join(thread, NULL);
	assert_int_equal(r, 0); /* after the kill it is our turn */
	words = xasprintf("mlrun: waiting for process %ld on '", (long)pid);
	assert_non_null(strstr(said, words));
	assert_non_null(strstr(said, "which is making layer " LAYER_1));
	close(out[0]);
	close(out[1]);
	close(saved);
}

static int is_set(void *flag)
{
	return __atomic_load_n((int *)flag, __ATOMIC_SEQ_CST);
}

static void a_wait_ends_soon_when_it_is_cancelled(void **state)
{
	struct timespec from, to;
	pthread_t thread;
	pid_t pid = child_that(begin_tree);
	int stop = 0, r = 0;

	store_set_cancelled(st, is_set, &stop);
	assert_int_equal(pthread_create(&thread, NULL, begin_same, &r), 0);
	usleep(300000); /* it sleeps its longest */
	clock_gettime(CLOCK_MONOTONIC, &from);
	__atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	clock_gettime(CLOCK_MONOTONIC, &to);
	reap(pid, SIGKILL);
	assert_int_equal(r, -ECANCELED);
	assert_true(to.tv_sec - from.tv_sec < 60); /* it would have waited for ever */
}

static int hold_store(void)
{
	struct store *mine = NULL;

	return store_open(dir, 0, &mine, NULL) < 0 || store_hold(mine, NULL) < 0;
}

static void rm_waits_for_pulls_to_end(void **state)
{
	int status;
	pid_t pid, holder;

	make_image("a:1", MANIFEST_A, NULL, LAYER_1, LAYER_2);
	holder = child_that(hold_store);
	store_close(st); /* it held the store, too */
	ok(store_open(dir, 0, &st, &err));
	pid = fork_child();
	if (pid == 0)
		_exit(remove_image("a:1") < 0);
	usleep(100000);
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	assert_int_equal(count("images"), 1);
	reap(holder, SIGTERM);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(count("images"), 0);
}

static void damaged_documents_are_refused_with_the_way_out(void **state)
{
	static const char *const bad[] = { "", "{", "[]", "{}", "{\"name\":3}",
		"{\"name\":\"n\",\"name\":\"n\"}" };
	auto_call(store_facts_done) struct store_facts f = { 0 };
	struct store_image im = { 0 };
	char path[100], hex[HASH_HEX_SIZE];
	struct store_image *v;
	size_t n;

	make_image("a:1", MANIFEST_A, NULL, LAYER_1, LAYER_2);
	hash_name("docker.io/library/a:1", hex);
	snprintf(path, sizeof(path), "images/%s.json", hex);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		ok(file_replace(store_fd(st), path, bad[i], strlen(bad[i]), 0644, &err));
		assert_int_equal(find("a:1", &im), -EPROTO);
		says(path);
		says("is damaged: ");
		says("hint: delete that file; if it is an image's, pull the image again");
		assert_int_equal(store_image_list(st, &v, &n, &err), -EPROTO);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		ok(file_replace(store_fd(st), FACTS_A, bad[i], strlen(bad[i]), 0644, &err));
		assert_int_equal(store_facts_get(st, MANIFEST_A, &f, &err), -EPROTO);
		says("is damaged: ");
	}
	/* Facts that say of no format. */
	static const char mute[] = "{\"os\":\"l\",\"architecture\":\"a\"}";

	ok(file_replace(store_fd(st), FACTS_A, mute, strlen(mute), 0644, &err));
	assert_int_equal(store_facts_get(st, MANIFEST_A, &f, &err), -EPROTO);
	says("formats: missing");
	/* No digest leads out of the store. */
	static const char evil[] = "{\"os\":\"l\",\"architecture\":\"a\",\"one_tree\":false,"
				   "\"diff_ids\":[\"sha256:../../../../etc\"]}";

	ok(file_replace(store_fd(st), FACTS_A, evil, strlen(evil), 0644, &err));
	assert_int_equal(store_facts_get(st, MANIFEST_A, &f, &err), -EPROTO);
}

static void a_document_copied_over_another_name_is_refused(void **state)
{
	auto_free char *text = NULL;
	struct store_image im = { 0 };
	char from[100] = "images/", to[100] = "images/";

	make_image("a:1", MANIFEST_A, NULL, LAYER_1, LAYER_2);
	hash_name("docker.io/library/a:1", from + 7);
	hash_name("docker.io/library/b:1", to + 7);
	strcat(from, ".json");
	strcat(to, ".json");
	ok(file_read(store_fd(st), from, 10000, &text, NULL, &err));
	ok(file_replace(store_fd(st), to, text, strlen(text), 0644, &err));
	assert_int_equal(find("b:1", &im), -EPROTO);
}

/* --- holds and locks ------------------------------------------------------ */

/* A hold of a process that never beats, of this host or another. */
static void fake_hold(char kind, const char *host, pid_t pid, char name[STORE_HOLD_NAME])
{
	struct store_process p;
	char who[STORE_PROCESS_NAME], path[STORE_HOLD_NAME + 8];

	ok(store_process_self(&p));
	if (host)
		snprintf(p.host, sizeof(p.host), "%s", host);
	p.pid = pid;
	if (pid != getpid())
		p.start = 1;
	store_process_name(&p, who);
	snprintf(name, STORE_HOLD_NAME, "%c-0123456789abcdef.%s", kind, who);
	snprintf(path, sizeof(path), "holds/%s", name);
	ok(file_replace(store_fd(st), path, "0000000000000000\n*\n", 19, 0644, &err));
}

static void a_hold_of_this_host_lives_as_long_as_its_process(void **state)
{
	auto_call(store_wait_done) struct store_wait w = STORE_WAIT_INIT(st, "working");
	char name[STORE_HOLD_NAME];

	fake_hold('a', NULL, 999999999, name);
	assert_int_equal(store_wait_alive(&w, name), 0);
	assert_int_equal(count("holds"), 1); /* the token */
	fake_hold('a', NULL, getpid(), name);
	assert_int_equal(store_wait_alive(&w, name), 1);
}

static void a_hold_of_another_host_is_dead_when_no_beat_is_seen(void **state)
{
	auto_call(store_wait_done) struct store_wait w = STORE_WAIT_INIT(st, "working");
	char name[STORE_HOLD_NAME], path[STORE_HOLD_NAME + 8];

	setenv("MLRUN_STALE_SECONDS", "1", 1);
	fake_hold('a', "elsewhere", 1, name);
	snprintf(path, sizeof(path), "holds/%s", name);
	for (int i = 0; i < 8; i++) { /* two seconds of beats */
		assert_int_equal(store_wait_alive(&w, name), 1);
		usleep(250000);
		ok(utimensat(store_fd(st), path, NULL, 0));
	}
	assert_int_equal(store_wait_alive(&w, name), 1);
	usleep(1200000);
	assert_int_equal(store_wait_alive(&w, name), 0);
	assert_false(is_there(path));
	unsetenv("MLRUN_STALE_SECONDS");
}

static void a_lock_of_a_dead_holder_is_broken_and_one_that_lives_is_kept(void **state)
{
	struct store_lock *l = NULL, *again = NULL;
	char name[STORE_HOLD_NAME], owner[STORE_HOLD_NAME + 20];
	auto_free char *text = NULL;

	ok(store_hold(st, &err));
	fake_hold('a', NULL, 999999999, name);
	ok(mkdirat(store_fd(st), "tmp/x.lock", 0755));
	snprintf(owner, sizeof(owner), "fedcba9876543210 %s", name);
	ok(file_replace(store_fd(st), "tmp/x.lock/owner", owner, strlen(owner), 0644, &err));
	ok(store_lock_take(st, "tmp/x.lock", "working", &l, &err));
	ok(file_read(store_fd(st), "tmp/x.lock/owner", 1000, &text, NULL, &err));
	assert_non_null(strstr(text, store_hold_name(st)));
	store_lock_sweep(st, "tmp/x.lock", 0);
	assert_true(is_there("tmp/x.lock"));
	store_lock_release(l);
	assert_int_equal(count("tmp"), 0);
	ok(store_lock_take(st, "tmp/x.lock", "working", &again, &err));
	store_lock_release(again);
}

/* A process that judged the old lock must not remove the new one. */
static void a_lock_that_was_broken_and_taken_is_not_released_by_its_old_holder(void **state)
{
	struct store_lock *l = NULL;
	auto_free char *text = NULL;

	ok(store_hold(st, &err));
	ok(store_lock_take(st, "tmp/x.lock", "working", &l, &err));
	ok(file_replace(
		store_fd(st), "tmp/x.lock/owner", "fedcba9876543210 a-another", 26, 0644, &err));
	store_lock_release(l);
	ok(file_read(store_fd(st), "tmp/x.lock/owner", 1000, &text, NULL, &err));
	assert_string_equal(text, "fedcba9876543210 a-another");
}

static void who_was_taken_for_dead_publishes_nothing(void **state)
{
	struct store_tree *t = NULL;
	char path[STORE_HOLD_NAME + 8];

	ok(store_tree_begin(st, STORE_LAYER, LAYER_1, &t, &err));
	snprintf(path, sizeof(path), "holds/%s", store_hold_name(st));
	ok(unlinkat(store_fd(st), path, 0));
	/* Another producer finds the work and renames it away. */
	{
		auto_store struct store *other = NULL;
		struct store_tree *u = NULL;

		ok(store_open(dir, 1, &other, &err));
		assert_int_equal(store_tree_begin(other, STORE_LAYER, LAYER_1, &u, &err), 0);
		assert_int_equal(store_tree_publish(t, &err), -ESTALE);
		says("this process was suspended");
		says("hint: run it again");
		ok(store_tree_publish(u, &err));
	}
	assert_true(store_tree_exists(st, STORE_LAYER, LAYER_1));
	assert_int_equal(store_hold_check(st, &err), -ESTALE);
	assert_int_equal(store_blob_put(st, LAYER_1, "x", 1, &err), -EBADMSG);
	assert_int_equal(store_hold(st, &err), -ESTALE);
}

static void a_remover_spares_what_adders_count_on(void **state)
{
	auto_store struct store *adder = NULL;
	auto_strv struct strv digests = STRV_INIT, spare = STRV_INIT;
	struct store_hold *h = NULL;

	strv_add(&digests, LAYER_1);
	strv_add(&digests, MANIFEST_A);
	ok(store_open(dir, 1, &adder, &err));
	ok(store_hold(adder, &err));
	ok(store_hold_only(adder, &digests, &err)); /* now no remover waits for it */
	ok(store_remover_begin(st, &spare, &h, &err));
	assert_int_equal(spare.n, 2);
	assert_true(strv_has(&spare, &LAYER_1[7]));
	assert_true(store_remover_holds(h));
	assert_false(is_there("holds/token"));
	store_remover_end(h);
	assert_true(is_there("holds/token"));
}

static void a_dead_removers_token_comes_back(void **state)
{
	auto_strv struct strv spare = STRV_INIT;
	struct store_hold *h = NULL;
	char name[STORE_HOLD_NAME];

	fake_hold('r', NULL, 999999999, name);
	ok(unlinkat(store_fd(st), "holds/token", 0));
	ok(store_remover_begin(st, &spare, &h, &err));
	store_remover_end(h);
	assert_int_equal(count("holds"), 1);
	/* The token itself was deleted. */
	ok(unlinkat(store_fd(st), "holds/token", 0));
	ok(store_remover_begin(st, &spare, &h, &err));
	store_remover_end(h);
	assert_int_equal(count("holds"), 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* Publish a tree of one file; its mark becomes that of an earlier boot. */
static void publish_and_crash(const char *key)
{
	struct store_tree *t = NULL;
	char *from, *to;

	assert_int_equal(store_tree_begin(st, STORE_LAYER, key, &t, &err), 0);
	ok(file_replace(store_tree_fd(t), "old", "x", 1, 0644, &err));
	ok(store_tree_publish(t, &err));
	store_settle(st);
	from = xasprintf("%s/unsynced", store_path(st));
	to = xasprintf(
		"%s/layers-%s.00000000-0000-0000-0000-000000000000", from, oci_digest_hex(key));
	close(open(to, O_WRONLY | O_CREAT, 0644));
	free(from);
	free(to);
	/* Each process looks once, since no boot ends while it runs. */
	store_close(st);
	ok(store_open(dir, 1, &st, &err));
}

static void a_tree_that_was_not_on_disk_when_the_machine_went_down_is_made_again(void **state)
{
	struct store_tree *t = NULL;
	int fd;

	publish_and_crash(LAYER_1);
	assert_int_equal(store_tree_exists(st, STORE_LAYER, LAYER_1), 0);
	assert_int_equal(store_tree_check(st, STORE_LAYER, LAYER_1, &err), -EUCLEAN);
	says("the machine went down before");
	says("mlrun pull fetches it again");

	assert_int_equal(store_tree_begin(st, STORE_LAYER, LAYER_1, &t, &err), 0);
	ok(file_replace(store_tree_fd(t), "new", "y", 1, 0644, &err));
	ok(store_tree_publish(t, &err));
	assert_int_equal(store_tree_exists(st, STORE_LAYER, LAYER_1), 1);
	ok(store_tree_check(st, STORE_LAYER, LAYER_1, &err));
	ok(fd = store_tree_open(st, STORE_LAYER, LAYER_1, &err));
	assert_int_equal(faccessat(fd, "new", F_OK, 0), 0);
	assert_int_equal(faccessat(fd, "old", F_OK, 0), -1);
	close(fd);
}

/* rm removed the tree in between. */
static void a_mark_of_an_earlier_boot_without_a_tree_is_swept(void **state)
{
	char path[96];

	publish_and_crash(LAYER_1);
	publish_and_crash(LAYER_2);
	snprintf(path, sizeof(path), "layers/%s", oci_digest_hex(LAYER_1));
	ok(file_remove_tree(store_fd(st), path, &err));
	store_sweep(st);
	assert_int_equal(store_tree_check(st, STORE_LAYER, LAYER_1, &err), 0);
	assert_int_equal(store_tree_check(st, STORE_LAYER, LAYER_2, &err), -EUCLEAN);
}

/* Otherwise syncing the first tree would also remove the mark of the second. */
static void a_tree_made_again_has_a_mark_of_its_own(void **state)
{
	struct store_tree *t = NULL;
	char path[96];

	snprintf(path, sizeof(path), "layers/%s", oci_digest_hex(LAYER_1));
	for (int i = 1; i <= 2; i++) {
		assert_int_equal(store_tree_begin(st, STORE_LAYER, LAYER_1, &t, &err), 0);
		ok(store_tree_publish(t, &err));
		assert_int_equal(count("unsynced"), i);
		ok(file_remove_tree(store_fd(st), path, &err));
	}
}

static void a_settled_store_has_no_marks(void **state)
{
	auto_free char *path = xasprintf("%s/unsynced", dir);
	struct store_tree *t = NULL;
	int left = -1;

	assert_int_equal(store_tree_begin(st, STORE_LAYER, LAYER_1, &t, &err), 0);
	ok(store_tree_publish(t, &err));
	store_settle(st);
	for (int i = 0; i < 600 && left != 0; i++) { /* the process that stays behind ends soon */
		DIR *d = opendir(path);
		struct dirent *e;

		assert_non_null(d);
		for (left = 0; (e = readdir(d));)
			left += e->d_name[0] != '.';
		closedir(d);
		if (left)
			usleep(50000);
	}
	assert_int_equal(left, 0);
	assert_int_equal(store_tree_exists(st, STORE_LAYER, LAYER_1), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_store_is_made_once_and_found_again),
		TEST(a_store_that_is_not_there_is_only_made_when_asked),
		TEST(the_place_of_the_store_follows_the_environment),
		TEST(a_store_of_a_newer_format_is_refused),
		TEST(a_directory_with_other_things_in_it_is_not_taken_over),
		TEST(a_directory_with_hidden_files_is_not_empty),
		TEST(an_empty_name_is_no_store),
		TEST(nobody_adds_to_the_store_of_another_user),
		TEST(a_blob_comes_back_and_one_of_other_bytes_is_refused),
		TEST(a_named_image_is_found_with_all_that_was_said_of_it),
		TEST(a_digest_finds_the_image_by_its_manifest_or_index),
		TEST(a_name_for_an_image_that_is_not_whole_is_refused),
		TEST(facts_that_are_there_are_dated_anew_not_replaced),
		TEST(a_document_that_is_being_replaced_is_waited_for),
		TEST(facts_of_the_first_version_are_understood),
		TEST(a_squashfs_file_is_published_at_once_and_removed_with_its_image),
		TEST(images_are_listed_in_order_of_their_names),
		TEST(a_removed_image_takes_along_only_what_no_other_needs),
		TEST(a_second_name_keeps_the_image),
		TEST(an_image_whose_name_was_given_to_a_newer_one_goes_with_the_next),
		TEST(documents_go_with_their_last_image),
		TEST(an_image_in_use_is_not_removed_until_its_user_ends),
		TEST(a_lease_of_an_earlier_boot_or_a_reused_pid_is_dead),
		TEST(a_lease_of_another_host_counts_for_seven_days),
		TEST(a_lease_of_another_pid_namespace_counts_like_one_of_another_host),
		TEST(what_a_process_out_of_sight_was_started_in_goes_by_force_only),
		TEST(a_lease_on_an_image_that_was_just_removed_fails),
		TEST(leases_of_ended_processes_are_swept),
		TEST(a_start_that_sweeps_spares_the_leases_of_jobs),
		TEST(a_tree_appears_whole_or_not_at_all),
		TEST(of_two_producers_the_second_finds_the_tree_of_the_first),
		TEST(two_threads_are_two_producers),
		TEST(a_killed_producers_leavings_are_removed_by_the_next),
		TEST(sweeping_spares_the_living),
		TEST(sweeping_spares_a_hold_that_is_about_to_appear),
		TEST(trash_and_trials_of_ended_processes_are_swept),
		TEST(a_wait_that_gets_long_names_whom_it_waits_for),
		TEST(a_wait_ends_soon_when_it_is_cancelled),
		TEST(rm_waits_for_pulls_to_end),
		TEST(damaged_documents_are_refused_with_the_way_out),
		TEST(a_tree_that_was_not_on_disk_when_the_machine_went_down_is_made_again),
		TEST(a_mark_of_an_earlier_boot_without_a_tree_is_swept),
		TEST(a_tree_made_again_has_a_mark_of_its_own),
		TEST(a_settled_store_has_no_marks),
		TEST(a_document_copied_over_another_name_is_refused),
		TEST(a_hold_of_this_host_lives_as_long_as_its_process),
		TEST(a_hold_of_another_host_is_dead_when_no_beat_is_seen),
		TEST(a_lock_of_a_dead_holder_is_broken_and_one_that_lives_is_kept),
		TEST(a_lock_that_was_broken_and_taken_is_not_released_by_its_old_holder),
		TEST(who_was_taken_for_dead_publishes_nothing),
		TEST(a_remover_spares_what_adders_count_on),
		TEST(a_dead_removers_token_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
