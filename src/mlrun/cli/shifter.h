/* What shifter and shifterimg share. */
#ifndef MLR_CLI_SHIFTER_H
#define MLR_CLI_SHIFTER_H

#include "base/error.h"
#include "shifter/udiroot.h"
#include "store/image.h"
#include "store/stores.h"

/* Read the site's udiRoot.conf: the file that MLRUN_UDIROOT names, else Shifter's own place. */
int shifter_site(struct udiroot *ret, struct mlr_error *err);

/* Call row for every image in the stores. Returns 0, or a negative errno of opening or listing. */
int shifter_each_image(void (*row)(const struct store_image *im), struct mlr_error *err);

#endif
