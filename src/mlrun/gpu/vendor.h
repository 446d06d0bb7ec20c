/*
 * The vendors of GPUs, a row each: what tells one's from another's wherever all are served. A new
 * vendor is a word of enum gpu_vendor (machine.h), a row in vendor.c and a folder beside nvidia/
 * and amd/ with the functions that the row names. How a job's variables name its GPUs is in
 * choice/allocation.c. CUDA's own rules (capabilities, requirements, MIG, forward compatibility, CDI
 * files) are NVIDIA's alone.
 */
#ifndef MLR_GPU_VENDOR_H
#define MLR_GPU_VENDOR_H

#include "gpu/machine.h"
#include "gpu/root.h"

struct gpu_sample; /* nvidia/nvml.h */

/* A node that all GPUs of a vendor share. */
struct gpu_control {
	const char *path;
	unsigned caps; /* those that bring it; 0: each does */
	int is_needed; /* CUDA finds no GPU without */
};

struct gpu_vendor_row {
	const char *name;  /* in JSON: "nvidia" */
	const char *title; /* for people: "NVIDIA" */

	/* --- on the host --- */
	const char *traces[4];  /* a file of these is there where its driver is */
	const char *listed_in;  /* where its driver lists its GPUs */
	const char *lacking;    /* why one with a driver may not be opened */
	const char *mend_group; /* what an administrator does for one that its mode closes */
	const char *mend;       /* and else */
	/*
	 * Add its GPUs, nodes and warnings, and with_files its driver's files for these
	 * capabilities. Returns 0, also where there are none, or -errno.
	 */
	int (*find)(const struct gpu_dir *d, int with_files, unsigned caps, struct gpu_machine *m,
		struct mlr_error *err);
	/*
	 * What its GPUs do now, to gpu_samples_free(). Returns their number. NULL: gpu_watch_open()
	 * tells it.
	 */
	int (*sample)(
		const struct gpu_dir *d, const struct gpu_machine *m, struct gpu_sample **ret);

	/* --- in the job --- */
	const char *visible;   /* the variable that lists the job's: "CUDA_VISIBLE_DEVICES" */
	const char *within[3]; /* those that count among the ones it leaves */
	const char *borrowed;  /* one that is read in place of the first of these, where it is not
				  another vendor's: CUDA's, as HIP does */
	int is_counted;        /* Slurm's numbers count them; else they are in their nodes' names */

	/* --- in the container --- */
	const char *image_variable; /* an image that has it, or this directory, is made for them */
	const char *image_directory;
	const char *image_own; /* an image with such a name in /opt has the driver's libraries, and
				  keeps its own; NULL: the host's win */
	struct gpu_control controls[6];
	unsigned drm_caps; /* capabilities that bring their graphics nodes; 0: each does */
};

extern const struct gpu_vendor_row gpu_vendors[GPU_VENDORS];

/* Has the machine one of this vendor's? */
int gpu_vendor_is_here(const struct gpu_machine *m, enum gpu_vendor vendor);

/* The first that it has, whose GPUs plain numbers count; GPU_VENDORS: none. */
enum gpu_vendor gpu_vendor_first(const struct gpu_machine *m);

#endif
