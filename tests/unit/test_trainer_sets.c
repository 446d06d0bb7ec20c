#include "trainer_test.h"

#include "base/log.h"
#include "config.h"
#include "data/cifar.h"
#include "data/loader.h"

static void make_dir(const char *name)
{
	assert_int_equal(file_mkdir_p(AT_FDCWD, in_test_dir(name), 0755, NULL), 0);
}

static void remove_all(const char *name)
{
	assert_int_equal(file_remove_tree(AT_FDCWD, in_test_dir(name), NULL), 0);
}

/* --- CIFAR ------------------------------------------------------------------- */

/* Records of these labels; every byte of image i's plane c is 10 * i + c + shift. */
static void write_cifar(const char *name, const uint8_t *labels, int label_bytes, int n, int shift)
{
	size_t record = (size_t)label_bytes + CIFAR_BYTES;
	auto_free uint8_t *b = xcalloc((size_t)n, record);

	for (int i = 0; i < n; i++) {
		uint8_t *at = b + (size_t)i * record;

		memcpy(at, labels + i * label_bytes, (size_t)label_bytes);
		for (int c = 0; c < 3; c++)
			memset(at + label_bytes + c * 1024, 10 * i + c + shift, 1024);
	}
	write_file(name, b, (size_t)n * record);
}

static void write_cifar_10(const char *dir)
{
	static const uint8_t labels[] = { 9, 0, 3 };
	char name[64];

	make_dir(dir);
	for (int k = 1; k <= 5; k++) {
		snprintf(name, sizeof(name), "%s/data_batch_%d.bin", dir, k);
		write_cifar(name, labels, 1, 2, 20 * k);
	}
	snprintf(name, sizeof(name), "%s/test_batch.bin", dir);
	write_cifar(name, labels, 1, 3, 0);
	snprintf(name, sizeof(name), "%s/batches.meta.txt", dir);
	write_file(name, "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n",
		62);
}

static void cifar_10_is_read_from_its_six_files(void **state)
{
	auto_call(dataset_done) struct dataset d = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	char buf[12];

	write_cifar_10("c10");
	if (dataset_load(in_test_dir("c10"), DATASET_ALL, NULL, &d, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(d.format, "cifar-10");
	assert_true(d.channels == 3 && d.height == 32 && d.width == 32 && d.classes == 10);
	assert_true(d.train.count == 10 && d.test.count == 3);
	assert_string_equal(dataset_class(&d, 9, buf), "truck");
	for (uint32_t i = 0; i < 10; i++) {
		const uint8_t *image = d.train.images + i * CIFAR_BYTES;

		assert_int_equal(d.train.labels[i], i % 2 ? 0 : 9);
		for (uint32_t c = 0; c < 3; c++) {
			assert_int_equal(image[c * 1024], 20 * (i / 2 + 1) + 10 * (i % 2) + c);
			assert_int_equal(image[c * 1024 + 1023], image[c * 1024]);
		}
	}
	assert_int_equal(d.test.labels[2], 3);
	for (int c = 0; c < 3; c++)
		assert_true(d.norm.mean[c] == 127.5f && d.norm.scale[c] == 255);
}

static void cifar_is_found_in_the_directory_that_its_archive_makes(void **state)
{
	auto_call(dataset_done) struct dataset d = { 0 };

	make_dir("unpacked");
	write_cifar_10("unpacked/cifar-10-batches-bin");
	assert_int_equal(dataset_load(in_test_dir("unpacked"), DATASET_TEST, NULL, &d, NULL), 0);
	assert_true(d.test.count == 3 && d.train.count == 0);
	assert_non_null(strstr(d.dir, "/unpacked/cifar-10-batches-bin"));
}

static void cifar_100_has_two_labels_of_which_the_fine_one_counts(void **state)
{
	static const uint8_t labels[] = { 19, 99, 0, 7 };
	auto_call(dataset_done) struct dataset d = { 0 };
	char buf[12];

	make_dir("c100");
	write_cifar("c100/train.bin", labels, 2, 2, 5);
	write_cifar("c100/test.bin", labels, 2, 1, 0);
	assert_int_equal(dataset_load(in_test_dir("c100"), DATASET_ALL, NULL, &d, NULL), 0);
	assert_string_equal(d.format, "cifar-100");
	assert_true(d.classes == 100 && d.train.count == 2 && d.test.count == 1);
	assert_true(d.train.labels[0] == 99 && d.train.labels[1] == 7);
	assert_int_equal(d.train.images[CIFAR_BYTES + 2048], 17);
	assert_string_equal(dataset_class(&d, 99, buf), "99"); /* without a file of names */
}

static int load_says(const char *dir, int code, const char *says)
{
	auto_call(dataset_done) struct dataset d = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	int r = dataset_load(in_test_dir(dir), DATASET_ALL, NULL, &d, &err);

	if (r != code || !strstr(err.text, says))
		fail_msg("%d: %s", r, err.text);
	return 1;
}

static void damaged_files_of_cifar_are_named(void **state)
{
	static const uint8_t ten[] = { 1, 10 }, coarse[] = { 20, 1 }, fine[] = { 1, 100 };
	uint8_t part[2 * (1 + CIFAR_BYTES) - 1] = { 0 };

	write_cifar_10("bad");
	write_file("bad/data_batch_3.bin", part, sizeof(part));
	load_says("bad", -EPROTO,
		"/bad/data_batch_3.bin' is truncated or no file of CIFAR-10's: it ends within "
		"image 1");
	write_file("bad/data_batch_3.bin", "", 0);
	load_says("bad", -EPROTO, "/bad/data_batch_3.bin' is empty");
	write_cifar("bad/data_batch_3.bin", ten, 1, 2, 0);
	load_says("bad", -EPROTO,
		"data_batch_3.bin' is damaged or no file of CIFAR-10's: image 1 has the label 10 "
		"where 9 is the highest");
	unlink(in_test_dir("bad/data_batch_3.bin"));
	load_says("bad", -ENOENT, "/bad/data_batch_3.bin' is missing");
	remove_all("bad");

	make_dir("bad");
	write_cifar("bad/test.bin", coarse, 2, 1, 0);
	load_says("bad", -ENOENT, "/bad/train.bin' is missing");
	write_cifar("bad/train.bin", fine, 2, 1, 0);
	load_says("bad", -EPROTO,
		"train.bin' is damaged or no file of CIFAR-100's: image 0 has "
		"the label 100 where 99");
	write_cifar("bad/train.bin", coarse, 2, 1, 0);
	load_says("bad", -EPROTO, "image 0 has the coarse label 20 where 19 is the highest");
	remove_all("bad");
}

static void names_of_cifar_are_as_many_as_classes(void **state)
{
	write_cifar_10("names");
	write_file("names/batches.meta.txt", "a\nb\n", 4);
	load_says("names", -EPROTO, "batches.meta.txt' has 2 names where 10 are needed");
	write_file("names/batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\n", 22);
	load_says("names", -EPROTO, "has more than 10 names");
	write_file("names/batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\033[2J\ni\nj\n", 24);
	load_says("names", -EPROTO, "name 8 has a control character in it");
}

static void a_directory_that_holds_no_data_set_is_told_what_was_looked_for(void **state)
{
	make_dir("nothing/there");
	write_file("nothing/there/notes.txt", "x", 1);
	load_says("nothing", -ENOENT,
		"/nothing' holds no data set that is known; looked for were: "
		"IDX files (train-images-idx3-ubyte[.gz] and so on); CIFAR-10's "
		"binary files (data_batch_1.bin and so on); CIFAR-100's");
	load_says("nothing", -ENOENT, "; folders of PNG and JPEG (train/CLASS/IMAGE and");
}

/* --- folders ----------------------------------------------------------------- */

#if HAVE_PNG && HAVE_JPEG
#include "pictures.h"

static void write_picture(const char *name, const struct bytes *b)
{
	write_file(name, b->data, b->len);
	free(b->data);
}

/* 4 x 4, grey. */
static void write_grey(const char *name, int value)
{
	uint8_t pixels[16];
	struct bytes b;

	memset(pixels, value, sizeof(pixels));
	b = make_plain_png(1, 4, 4, pixels);
	write_picture(name, &b);
}

/* dir/CLASS/000.png …, whose every byte is 50 * class + number. */
static void write_class(const char *dir, const char *class, int number, int n)
{
	char name[128];

	snprintf(name, sizeof(name), "%s/%s", dir, class);
	make_dir(name);
	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%s/%s/%03d.png", dir, class, i);
		write_grey(name, 50 * number + i);
	}
}

static void write_folders(const char *dir)
{
	remove_all(dir);
	write_class(dir, "ant", 0, 10);
	write_class(dir, "bee", 1, 20);
	write_class(dir, "Cow", 2, 5); /* C's order: before the others */
}

static struct dataset load(const char *dir, const struct dataset_wish *wish)
{
	struct dataset d = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	if (dataset_load(in_test_dir(dir), DATASET_ALL, wish, &d, &err) < 0)
		fail_msg("%s", err.text);
	return d;
}

/* Does every image have the bytes of its class, each file once? */
static void assert_images(const struct dataset *d, const struct image_set *set, int seen[3][50])
{
	static const int number[] = { 2, 0, 1 }; /* of Cow, ant, bee */

	for (uint32_t i = 0; i < set->count; i++) {
		const uint8_t *p = set->images + (size_t)i * d->channels * d->height * d->width;
		int class = number[set->labels[i]];

		assert_in_range(p[0], 50 * class, 50 * class + 49);
		assert_int_equal(p[15], p[0]);
		assert_int_equal(seen[class][p[0] - 50 * class]++, 0);
	}
}

static void folders_without_a_test_part_give_a_share_of_each_class(void **state)
{
	auto_call(dataset_done) struct dataset d = { 0 };
	int seen[3][50] = { { 0 } }, of[3] = { 0 };

	write_folders("bare");
	d = load("bare", NULL);
	assert_string_equal(d.format, "folders");
	assert_true(d.channels == 1 && d.height == 4 && d.width == 4 && d.classes == 3);
	assert_string_equal(d.names[0], "Cow");
	assert_string_equal(d.names[1], "ant");
	assert_string_equal(d.names[2], "bee");
	assert_int_equal(d.train.count, 28);
	assert_int_equal(d.test.count, 7);
	for (uint32_t i = 0; i < d.test.count; i++)
		of[d.test.labels[i]]++;
	assert_true(of[0] == 1 && of[1] == 2 && of[2] == 4);
	assert_images(&d, &d.train, seen);
	assert_images(&d, &d.test, seen);
}

static void the_same_images_are_kept_for_testing_whatever_the_seed_and_what_is_added(void **state)
{
	auto_call(dataset_done) struct dataset a = { 0 }, b = { 0 }, c = { 0 };
	const struct dataset_wish other = { .seed = 99 };
	uint8_t kept[256] = { 0 };

	write_folders("bare");
	a = load("bare", NULL);
	b = load("bare", &other);
	assert_int_equal(a.test.count, b.test.count);
	assert_memory_equal(a.test.images, b.test.images, a.test.count * 16);
	assert_memory_equal(a.test.labels, b.test.labels, a.test.count * sizeof(uint16_t));
	assert_true(memcmp(a.train.images, b.train.images, a.train.count * 16) != 0);
	/* With the test part alone they are the same. */
	assert_int_equal(dataset_load(in_test_dir("bare"), DATASET_TEST, NULL, &c, NULL), 0);
	assert_true(c.train.count == 0 && c.test.count == a.test.count);
	assert_memory_equal(c.test.images, a.test.images, a.test.count * 16);
	dataset_done(&c);

	/* One more image in ten moves none from the one part into the other, but by the share. */
	write_grey("bare/ant/new.png", 40);
	c = load("bare", NULL);
	for (uint32_t i = 0; i < c.test.count; i++)
		kept[c.test.images[i * 16]] = 1;
	for (uint32_t i = 0, lost = 0; i < a.test.count; i++) {
		lost += !kept[a.test.images[i * 16]];
		assert_in_range(lost, 0, 1);
	}
}

static void training_images_of_folders_are_mixed_by_the_seed(void **state)
{
	const struct dataset_wish wish = { .seed = 5 };
	auto_call(dataset_done) struct dataset a = { 0 }, b = { 0 };
	int changes = 0; /* of class, along the order: 2 where nothing is mixed */

	write_folders("bare");
	a = load("bare", &wish);
	b = load("bare", &wish);
	assert_memory_equal(a.train.images, b.train.images, a.train.count * 16);
	for (uint32_t i = 1; i < a.train.count; i++)
		changes += a.train.labels[i] != a.train.labels[i - 1];
	assert_in_range(changes, 8, 28);
}

static void folders_with_a_test_part_keep_to_it(void **state)
{
	static const char *const tests[] = { "test", "val" };

	for (size_t i = 0; i < ARRAY_LEN(tests); i++) {
		auto_call(dataset_done) struct dataset d = { 0 };
		char name[32];
		int seen[3][50] = { { 0 } }, again[3][50] = { { 0 } };

		remove_all("parts");
		write_folders("parts/train");
		snprintf(name, sizeof(name), "parts/%s", tests[i]);
		write_class(name, "bee", 1, 3);
		write_class(name, "Cow", 2, 1);
		d = load("parts", NULL);
		assert_true(d.train.count == 35 && d.test.count == 4 && d.classes == 3);
		assert_true(d.test.labels[0] == 0 && d.test.labels[1] == 2);
		assert_images(&d, &d.train, seen);
		assert_images(&d, &d.test, again);
	}
}

static void folders_that_do_not_belong_together_are_named(void **state)
{
	remove_all("parts");
	write_folders("parts/train");
	write_class("parts/test", "bee", 1, 1);
	write_class("parts/test", "wasp", 1, 1);
	load_says("parts", -EPROTO, "/parts/test' has the class 'wasp' but '");
	remove_all("parts/test");
	make_dir("parts/train/empty");
	load_says("parts", -EPROTO, "/parts/train/empty' has no images (.png, .jpg, .jpeg)");
	remove_all("parts/train");
	make_dir("parts/train");
	load_says("parts", -ENOENT, "/parts/train' has no directories");
	remove_all("parts");
	write_class("parts", "one", 0, 1);
	load_says("parts", -EPROTO, "/parts' has too few images to keep some for testing");
	make_dir("parts/\033[2J");
	load_says("parts", -EINVAL, "has a control character in its name");
	remove_all("parts");
}

static void links_are_followed_to_files_alone(void **state)
{
	auto_call(dataset_done) struct dataset d = { 0 };

	remove_all("links");
	write_folders("links");
	write_folders("away");
	assert_int_equal(symlink("../../away/ant/000.png", in_test_dir("links/ant/linked.png")), 0);
	assert_int_equal(symlink("../../away", in_test_dir("links/ant/dir.png")), 0);
	assert_int_equal(symlink("gone", in_test_dir("links/ant/gone.png")), 0);
	assert_int_equal(symlink("/dev/zero", in_test_dir("links/ant/zero.png")), 0);
	assert_int_equal(symlink("../away/bee", in_test_dir("links/linked")), 0);
	assert_int_equal(mkfifo(in_test_dir("links/ant/pipe.png"), 0600), 0);
	make_dir("links/ant/more.png");
	write_file("links/ant/.hidden.png", "x", 1);
	write_file("links/ant/notes.txt", "x", 1);
	mlr_log_level = MLR_ERROR; /* what is skipped is told */
	d = load("links", NULL);
	mlr_log_level = MLR_INFO;
	assert_int_equal(d.classes, 3);
	assert_int_equal(d.train.count + d.test.count, 36);
	dataset_done(&d);

	make_dir("links2");
	assert_int_equal(symlink("../away", in_test_dir("links2/train")), 0);
	load_says("links2", -EINVAL,
		"/links2/train' is a link to a directory, which is not followed");
}

static void the_size_and_colour_that_are_wished_for_are_given(void **state)
{
	const struct dataset_wish wish = { .channels = 3, .height = 6, .width = 2 };
	const struct dataset_wish grey = { .channels = 1 };
	const struct dataset_wish bad = { .channels = 2 }, large = { .height = 40000 };
	auto_call(dataset_done) struct dataset a = { 0 }, b = { 0 };
	uint8_t rgb[2 * 2 * 3] = { 255 };
	struct bytes p = make_plain_png(3, 2, 2, rgb);
	struct mlr_error err;

	write_folders("size");
	a = load("size", &wish);
	assert_true(a.channels == 3 && a.height == 6 && a.width == 2);
	for (uint32_t i = 0; i < a.train.count; i++)
		for (int k = 1; k < 36; k++)
			assert_int_equal(a.train.images[36 * i + k], a.train.images[36 * i]);
	dataset_done(&a);
	write_picture("size/Cow/000.png", &p); /* the first one says what is not wished for */
	a = load("size", NULL);
	assert_true(a.channels == 3 && a.height == 2 && a.width == 2);
	b = load("size", &grey);
	assert_true(b.channels == 1 && b.height == 2 && b.width == 2);
	dataset_done(&b);
	assert_int_equal(dataset_load(in_test_dir("size"), DATASET_ALL, &bad, &b, &err), -EINVAL);
	assert_non_null(strstr(err.text, "images of 2 channels were asked for"));
	assert_int_equal(dataset_load(in_test_dir("size"), DATASET_ALL, &large, &b, &err), -EFBIG);
	assert_non_null(strstr(err.text, "40000x"));
}

static void a_damaged_picture_is_named_with_any_number_of_threads(void **state)
{
	struct mlr_error first = MLR_ERROR_INIT;

	write_folders("damaged");
	write_file("damaged/bee/003.png", "\x89PNG\r\n\x1a\n", 8);
	write_file("damaged/bee/011.png", "no picture", 10);
	for (int threads = 1; threads <= 4; threads++) {
		const struct dataset_wish wish = {
			.channels = 1, .height = 4, .width = 4, .threads = threads
		};
		auto_call(dataset_done) struct dataset d = { 0 };
		struct mlr_error err = MLR_ERROR_INIT;

		assert_int_equal(dataset_load(in_test_dir("damaged"), DATASET_ALL, &wish, &d, &err),
			-EPROTO);
		assert_non_null(strstr(err.text, "/damaged/bee/0"));
		if (threads > 1)
			assert_string_equal(err.text, first.text);
		first = err;
	}
}

/* --- more than memory holds -------------------------------------------------- */

static const struct dataset_wish lazy = { .memory_max = 1 };

static void assert_same_batch(
	const struct batch *b, const struct dataset *whole, const uint32_t *order, int rows)
{
	assert_int_equal(b->rows, rows);
	assert_null(b->index);
	for (int i = 0; i < rows; i++) {
		assert_memory_equal(b->images + 16 * i, whole->train.images + 16 * order[i], 16);
		assert_int_equal(b->labels[i], whole->train.labels[order[i]]);
	}
}

static void images_that_do_not_fit_into_memory_are_decoded_as_they_are_needed(void **state)
{
	auto_call(dataset_done) struct dataset whole = { 0 }, d = { 0 };
	uint32_t order[28];
	struct augment augment[28];
	struct rng rng;

	write_folders("lazy");
	whole = load("lazy", NULL);
	d = load("lazy", &lazy);
	assert_null(d.train.images);
	assert_null(d.test.images);
	assert_memory_equal(d.train.labels, whole.train.labels, 28 * sizeof(uint16_t));
	rng_init(&rng, 3, RNG_TEST, 0);
	rng_shuffle(&rng, order, 28);
	for (int threads = 1; threads <= 4; threads++) {
		const struct loader_options o = { 3, 2, threads };
		auto_call(loader_close) struct loader *l = NULL;
		struct batch b[2];

		assert_int_equal(loader_open(&d.train, &d, &o, &l, NULL), 0);
		/* What is begun and dropped does not show. */
		loader_start(l, order, NULL, 3, 9);
		assert_in_range(loader_take(l, 2, b, NULL), 1, 2);
		/* Two ranks: the second one's rows. */
		loader_start(l, order + 3, augment + 3, 6, 4);
		for (int at = 0; at < 4;) {
			int n = loader_take(l, 2, b, NULL);

			assert_in_range(n, 1, 2);
			for (int i = 0; i < n; i++, at++) {
				assert_same_batch(&b[i], &whole, order + 3 + 6 * at, 3);
				assert_ptr_equal(b[i].augment, augment + 3 + 6 * at);
			}
		}
		assert_int_equal(loader_take(l, 2, b, NULL), 0);
	}
}

static void a_range_that_does_not_fit_into_memory_is_handed_out_whole(void **state)
{
	auto_call(dataset_done) struct dataset whole = { 0 }, d = { 0 };
	const struct loader_options o = { 4, 3, 2 };
	auto_call(loader_close) struct loader *l = NULL;
	struct batch b[3];
	uint32_t all[28];

	write_folders("lazy");
	whole = load("lazy", NULL);
	d = load("lazy", &lazy);
	for (uint32_t i = 0; i < 28; i++)
		all[i] = i;
	assert_int_equal(loader_open(&d.train, &d, &o, &l, NULL), 0);
	loader_start_range(l, 5, 22);
	for (uint32_t at = 5; at < 27;) {
		int n = loader_take(l, 3, b, NULL);

		assert_in_range(n, 1, 3);
		for (int i = 0; i < n; i++) {
			assert_same_batch(&b[i], &whole, all + at, at == 25 ? 2 : 4);
			at += (uint32_t)b[i].rows;
		}
	}
	assert_int_equal(loader_take(l, 3, b, NULL), 0);
}

static void batches_stay_as_they_are_until_the_next_are_taken(void **state)
{
	auto_call(dataset_done) struct dataset whole = { 0 }, d = { 0 };
	const struct loader_options o = { 2, 2, 4 };
	auto_call(loader_close) struct loader *l = NULL;
	struct batch b[2];
	uint32_t order[28];
	int n;

	write_folders("lazy");
	whole = load("lazy", NULL);
	d = load("lazy", &lazy);
	for (uint32_t i = 0; i < 28; i++)
		order[i] = 27 - i;
	assert_int_equal(loader_open(&d.train, &d, &o, &l, NULL), 0);
	loader_start(l, order, NULL, 2, 14);
	for (int at = 0; (n = loader_take(l, 2, b, NULL)) > 0; at += n) {
		usleep(3000); /* time in which the threads go on */
		for (int i = 0; i < n; i++)
			assert_same_batch(&b[i], &whole, order + 2 * (at + i), 2);
	}
	assert_int_equal(n, 0);
}

static void a_picture_damaged_since_ends_the_batches_before_it_and_is_named(void **state)
{
	auto_call(dataset_done) struct dataset d = { 0 };
	uint32_t order[28], at = 0;

	write_folders("lazy");
	d = load("lazy", &lazy);
	write_file("lazy/bee/001.png", "no picture", 10);
	for (uint32_t i = 0; i < 28; i++)
		order[i] = i;
	{ /* what the fourth batch begins with becomes that file */
		const struct loader_options one = { 1, 1, 1 };
		auto_call(loader_close) struct loader *l = NULL;
		struct batch b;

		assert_int_equal(loader_open(&d.train, &d, &one, &l, NULL), 0);
		loader_start_range(l, 0, 28);
		while (loader_take(l, 1, &b, NULL) == 1)
			at++;
		assert_in_range(at, 0, 27);
		order[12] = at;
		order[at] = 12;
	}
	for (int threads = 1; threads <= 3; threads++) {
		const struct loader_options o = { 4, 2, threads };
		auto_call(loader_close) struct loader *l = NULL;
		struct mlr_error err = MLR_ERROR_INIT;
		struct batch b[2];
		int n, got = 0;

		assert_int_equal(loader_open(&d.train, &d, &o, &l, NULL), 0);
		loader_start(l, order, NULL, 4, 7);
		while ((n = loader_take(l, 2, b, &err)) > 0)
			got += n;
		assert_int_equal(got, 3);
		assert_int_equal(n, -EPROTO);
		assert_non_null(strstr(err.text, "/lazy/bee/001.png': neither PNG nor JPEG"));
		assert_int_equal(loader_take(l, 2, b, &err), -EPROTO);
		loader_start(l, order, NULL, 4, 3); /* without it all is well again */
		for (got = 0; (n = loader_take(l, 2, b, &err)) > 0;)
			got += n;
		assert_int_equal(got, 3);
		assert_int_equal(n, 0);
	}
}

static void memory_goes_to_the_training_images_first(void **state)
{
	const struct dataset_wish train_fits = { .memory_max = 28 * 16 };
	const struct dataset_wish test_fits = { .memory_max = 28 * 16 - 1 };
	const struct dataset_wish both_fit = { .memory_max = 35 * 16 };
	auto_call(dataset_done) struct dataset a = { 0 }, b = { 0 }, c = { 0 };

	write_folders("lazy");
	a = load("lazy", &train_fits);
	assert_true(a.train.images && !a.train.files && !a.test.images && a.test.files);
	b = load("lazy", &test_fits);
	assert_true(!b.train.images && b.train.files && b.test.images && !b.test.files);
	c = load("lazy", &both_fit);
	assert_true(c.train.images && c.test.images);
}
#endif

/* --- measures ---------------------------------------------------------------- */

static void a_set_is_measured_channel_by_channel_without_what_validates(void **state)
{
	auto_call(dataset_done) struct dataset d = { 0 };
	struct image_norm norm;
	struct mlr_error err;

	write_cifar_10("measure"); /* planes of 20 * k + 10 * i + c */
	assert_int_equal(dataset_load(in_test_dir("measure"), DATASET_ALL, NULL, &d, NULL), 0);
	assert_int_equal(dataset_measure(&d, 0, 1, &norm, NULL), 0);
	for (int c = 0; c < 3; c++) { /* of 20, 30 … 110 */
		assert_true(fabsf(norm.mean[c] - (65 + (float)c)) < 1e-4f);
		assert_true(fabsf(norm.scale[c] - sqrtf(825)) < 1e-4f);
	}
	assert_int_equal(dataset_measure(&d, 8, 1, &norm, NULL), 0);
	assert_true(norm.mean[0] == 105 && norm.scale[0] == 5);
	assert_int_equal(dataset_measure(&d, 9, 1, &norm, NULL), 0);
	assert_true(norm.mean[2] == 112 && norm.scale[2] == 1);
	assert_int_equal(dataset_measure(&d, 10, 1, &norm, &err), -EINVAL);
	assert_non_null(strstr(err.text, "/measure' has no training images to measure"));
}

#if HAVE_PNG && HAVE_JPEG
static void what_is_not_in_memory_is_measured_alike(void **state)
{
	auto_call(dataset_done) struct dataset whole = { 0 }, d = { 0 };
	struct image_norm a, b;

	write_folders("lazy");
	whole = load("lazy", NULL);
	d = load("lazy", &lazy);
	assert_int_equal(dataset_measure(&whole, 4, 1, &a, NULL), 0);
	assert_int_equal(dataset_measure(&d, 4, 3, &b, NULL), 0);
	assert_memory_equal(&a, &b, sizeof(a));
	write_file("lazy/bee/001.png", "no picture", 10);
	write_file("lazy/bee/002.png", "no picture", 10);
	write_file("lazy/bee/003.png", "no picture", 10);
	write_file("lazy/bee/004.png", "no picture", 10);
	write_file("lazy/bee/005.png", "no picture", 10);
	assert_int_equal(dataset_measure(&d, 0, 3, &b, NULL), -EPROTO);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cifar_10_is_read_from_its_six_files),
		cmocka_unit_test(cifar_is_found_in_the_directory_that_its_archive_makes),
		cmocka_unit_test(cifar_100_has_two_labels_of_which_the_fine_one_counts),
		cmocka_unit_test(damaged_files_of_cifar_are_named),
		cmocka_unit_test(names_of_cifar_are_as_many_as_classes),
		cmocka_unit_test(a_directory_that_holds_no_data_set_is_told_what_was_looked_for),
#if HAVE_PNG && HAVE_JPEG
		cmocka_unit_test(folders_without_a_test_part_give_a_share_of_each_class),
		cmocka_unit_test(
			the_same_images_are_kept_for_testing_whatever_the_seed_and_what_is_added),
		cmocka_unit_test(training_images_of_folders_are_mixed_by_the_seed),
		cmocka_unit_test(folders_with_a_test_part_keep_to_it),
		cmocka_unit_test(folders_that_do_not_belong_together_are_named),
		cmocka_unit_test(links_are_followed_to_files_alone),
		cmocka_unit_test(the_size_and_colour_that_are_wished_for_are_given),
		cmocka_unit_test(a_damaged_picture_is_named_with_any_number_of_threads),
		cmocka_unit_test(images_that_do_not_fit_into_memory_are_decoded_as_they_are_needed),
		cmocka_unit_test(a_range_that_does_not_fit_into_memory_is_handed_out_whole),
		cmocka_unit_test(batches_stay_as_they_are_until_the_next_are_taken),
		cmocka_unit_test(a_picture_damaged_since_ends_the_batches_before_it_and_is_named),
		cmocka_unit_test(memory_goes_to_the_training_images_first),
		cmocka_unit_test(what_is_not_in_memory_is_measured_alike),
#endif
		cmocka_unit_test(a_set_is_measured_channel_by_channel_without_what_validates),
	};

	return cmocka_run_group_tests(tests, make_test_dir, drop_test_dir);
}
