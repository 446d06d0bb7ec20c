/* The parts of a page in words and numbers: results, differences, timings, epochs, recipes. */
#ifndef MLT_REPORT_TABLES_H
#define MLT_REPORT_TABLES_H

#include "report/runs.h"

/* The results of one run, in large type. */
void tables_result(FILE *f, const struct run *r);

/* Several runs side by side: results, and the settings that differ. */
void tables_differences(FILE *f, const struct runs *runs);

/* Where the time went, a bar and a table for each run. */
void tables_timings(FILE *f, const struct runs *runs);

/* The results of each epoch. */
void tables_epochs(FILE *f, const struct runs *runs);

/* All settings of the runs. */
void tables_facts(FILE *f, const struct runs *runs);

/* "reached its end", "was interrupted at step 30", …, to free(). */
char *tables_outcome(const struct run *r);

#endif
