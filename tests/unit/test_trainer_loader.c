#include "trainer_test.h"

#include "data/loader.h"

/* --- alterations --------------------------------------------------------------- */

#define DRAWS 20000

static struct augment drawn[DRAWS];

static void draw(const struct augment_policy *p, int h, int w)
{
	augment_draw(p, 7, 3, 0, DRAWS, h, w, drawn);
}

static void alterations_keep_within_what_the_policy_says_and_use_all_of_it(void **state)
{
	const struct augment_policy p = { .shift = 2, .flip = 1, .cut = 4 };
	int down[5] = { 0 }, right[5] = { 0 }, flips = 0, y[10] = { 0 }, x[6] = { 0 };

	draw(&p, 10, 6);
	for (int i = 0; i < DRAWS; i++) {
		const struct augment *a = &drawn[i];

		assert_in_range(a->down + 2, 0, 4);
		assert_in_range(a->right + 2, 0, 4);
		assert_in_range(a->cut_y + 2, 0, 9);
		assert_in_range(a->cut_x + 2, 0, 5);
		assert_true(a->cut == 4 && a->flip <= 1);
		down[a->down + 2]++;
		right[a->right + 2]++;
		y[a->cut_y + 2]++;
		x[a->cut_x + 2]++;
		flips += a->flip;
	}
	/* Within five deviations of what chance gives. */
	assert_in_range(flips, DRAWS / 2 - 360, DRAWS / 2 + 360);
	for (int i = 0; i < 5; i++) {
		assert_in_range(down[i], DRAWS / 5 - 290, DRAWS / 5 + 290);
		assert_in_range(right[i], DRAWS / 5 - 290, DRAWS / 5 + 290);
	}
	for (int i = 0; i < 10; i++)
		assert_in_range(y[i], DRAWS / 10 - 220, DRAWS / 10 + 220);
	for (int i = 0; i < 6; i++)
		assert_in_range(x[i], DRAWS / 6 - 270, DRAWS / 6 + 270);
}

static void an_image_is_altered_alike_however_the_places_are_cut(void **state)
{
	const struct augment_policy p = { .shift = 3, .flip = 1, .cut = 5 };
	struct augment one;

	draw(&p, 28, 28);
	for (int i = 0; i < 100; i++) { /* as many ranks and batches draw it */
		augment_draw(&p, 7, 3, (uint64_t)i, 1, 28, 28, &one);
		assert_memory_equal(&one, &drawn[i], sizeof(one));
	}
}

static int same_as_drawn(uint64_t seed, uint64_t epoch, uint64_t first)
{
	const struct augment_policy p = { .shift = 3, .flip = 1, .cut = 5 };
	struct augment other[1000];
	int same = 0;

	augment_draw(&p, seed, epoch, first, 1000, 28, 28, other);
	for (int i = 0; i < 1000; i++)
		same += memcmp(&other[i], &drawn[i], sizeof(other[i])) == 0;
	return same;
}

static void another_seed_epoch_or_place_alters_otherwise(void **state)
{
	const struct augment_policy p = { .shift = 3, .flip = 1, .cut = 5 };

	draw(&p, 28, 28);
	assert_int_equal(same_as_drawn(7, 3, 0), 1000);
	assert_in_range(same_as_drawn(8, 3, 0), 0, 5);
	assert_in_range(same_as_drawn(7 + (1ull << 32), 3, 0), 0, 5);
	assert_in_range(same_as_drawn(7, 4, 0), 0, 5);
	assert_in_range(same_as_drawn(7, 3 + (1ull << 32), 0), 0, 5);
	assert_in_range(same_as_drawn(7, 3, 1), 0, 5);
	assert_in_range(same_as_drawn(7, 3, 1ull << 32), 0, 5);
}

static void each_kind_of_alteration_is_drawn_whatever_the_others_are(void **state)
{
	const struct augment_policy all = { .shift = 3, .flip = 1, .cut = 5 };
	const struct augment_policy shift = { .shift = 3 }, flip = { .flip = 1 },
				    cut = { .cut = 5 }, none = { 0 };
	struct augment a[64], zero = { 0 };

	draw(&all, 28, 28);
	augment_draw(&shift, 7, 3, 0, 64, 28, 28, a);
	for (int i = 0; i < 64; i++)
		assert_true(a[i].down == drawn[i].down && a[i].right == drawn[i].right &&
			!a[i].flip && !a[i].cut && !a[i].cut_x && !a[i].cut_y);
	augment_draw(&flip, 7, 3, 0, 64, 28, 28, a);
	for (int i = 0; i < 64; i++)
		assert_true(a[i].flip == drawn[i].flip && !a[i].down && !a[i].cut);
	augment_draw(&cut, 7, 3, 0, 64, 28, 28, a);
	for (int i = 0; i < 64; i++)
		assert_true(a[i].cut_y == drawn[i].cut_y && a[i].cut_x == drawn[i].cut_x &&
			a[i].cut == 5 && !a[i].right && !a[i].flip);
	augment_draw(&none, 7, 3, 0, 64, 28, 28, a);
	for (int i = 0; i < 64; i++)
		assert_memory_equal(&a[i], &zero, sizeof(zero));
}

/* So that other implementations of the header's words can be held against these. */
static void the_first_alterations_are_the_recorded_ones(void **state)
{
	static const struct augment want[3] = { { 0, -3, 1, 8, 0, 17 }, { 0, -1, 1, 8, 27, 26 },
		{ -3, -3, 0, 8, 16, 21 } };
	const struct augment_policy p = { .shift = 4, .flip = 1, .cut = 8 };
	struct augment a[3];

	augment_draw(&p, 1, 1, 0, 3, 32, 32, a);
	assert_memory_equal(a, want, sizeof(want));
}

/* --- sets in memory ------------------------------------------------------------ */

static const struct loader_options two_ahead = { .rows = 4, .ahead = 2, .threads = 1 };

static struct loader *open_loader(const struct dataset *d, const struct loader_options *o)
{
	struct loader *l = NULL;

	assert_int_equal(loader_open(&d->train, d, o, &l, NULL), 0);
	return l;
}

static void assert_batch(const struct batch *b, const struct dataset *d, const uint32_t *order,
	const struct augment *augment, int rows)
{
	assert_int_equal(b->rows, rows);
	assert_ptr_equal(b->images, d->train.images);
	assert_ptr_equal(b->augment, augment);
	for (int i = 0; i < rows; i++) {
		assert_int_equal(b->index[i], order[i]);
		assert_int_equal(b->labels[i], d->train.labels[order[i]]);
	}
}

static void a_set_in_memory_is_handed_out_in_place_and_in_order(void **state)
{
	auto_call(dataset_done) struct dataset d = make_dataset(20, 1, 4, 3);
	auto_call(loader_close) struct loader *l = open_loader(&d, &two_ahead);
	uint32_t order[20];
	struct augment augment[20];
	struct batch b[2];
	struct rng rng;

	rng_init(&rng, 5, RNG_TEST, 0);
	rng_shuffle(&rng, order, 20);
	for (int epoch = 0; epoch < 2; epoch++) { /* the second starts half-way through the first */
		loader_start(l, order, augment, 4, 5);
		assert_int_equal(loader_take(l, 2, b, NULL), 2);
		assert_batch(&b[0], &d, order, augment, 4);
		assert_batch(&b[1], &d, order + 4, augment + 4, 4);
		assert_ptr_equal(b[1].index, order + 4);
	}
	assert_int_equal(loader_take(l, 2, b, NULL), 2);
	assert_int_equal(loader_take(l, 2, b, NULL), 1);
	assert_batch(&b[0], &d, order + 16, augment + 16, 4);
	assert_int_equal(loader_take(l, 2, b, NULL), 0);
	assert_int_equal(loader_take(l, 2, b, NULL), 0);
}

static void ranks_take_their_own_rows_of_every_batch(void **state)
{
	auto_call(dataset_done) struct dataset d = make_dataset(24, 1, 4, 3);
	const struct loader_options o = { .rows = 4, .ahead = 3, .threads = 1 };
	uint32_t order[24];
	struct batch b[3];

	for (uint32_t i = 0; i < 24; i++)
		order[i] = 23 - i;
	for (int rank = 0; rank < 2; rank++) {
		auto_call(loader_close) struct loader *l = open_loader(&d, &o);

		loader_start(l, order + rank * 4, NULL, 8, 3);
		assert_int_equal(loader_take(l, 3, b, NULL), 3);
		for (int i = 0; i < 3; i++)
			assert_batch(&b[i], &d, order + i * 8 + rank * 4, NULL, 4);
		assert_int_equal(loader_take(l, 3, b, NULL), 0);
	}
}

static void a_range_is_handed_out_whole_with_a_short_last_batch(void **state)
{
	static const uint32_t all[20] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
		17, 18, 19 };
	auto_call(dataset_done) struct dataset d = make_dataset(20, 1, 4, 3);
	auto_call(loader_close) struct loader *l = open_loader(&d, &two_ahead);
	struct batch b[2];

	loader_start_range(l, 3, 10);
	assert_int_equal(loader_take(l, 2, b, NULL), 2);
	assert_batch(&b[0], &d, all + 3, NULL, 4);
	assert_batch(&b[1], &d, all + 7, NULL, 4);
	assert_int_equal(loader_take(l, 2, b, NULL), 1);
	assert_batch(&b[0], &d, all + 11, NULL, 2);
	assert_int_equal(loader_take(l, 2, b, NULL), 0);
	loader_start_range(l, 20, 0);
	assert_int_equal(loader_take(l, 2, b, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alterations_keep_within_what_the_policy_says_and_use_all_of_it),
		cmocka_unit_test(an_image_is_altered_alike_however_the_places_are_cut),
		cmocka_unit_test(another_seed_epoch_or_place_alters_otherwise),
		cmocka_unit_test(each_kind_of_alteration_is_drawn_whatever_the_others_are),
		cmocka_unit_test(the_first_alterations_are_the_recorded_ones),
		cmocka_unit_test(a_set_in_memory_is_handed_out_in_place_and_in_order),
		cmocka_unit_test(ranks_take_their_own_rows_of_every_batch),
		cmocka_unit_test(a_range_is_handed_out_whole_with_a_short_last_batch),
	};

	return cmocka_run_group_tests(tests, make_test_dir, drop_test_dir);
}
