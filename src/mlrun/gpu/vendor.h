/*
 * Has a table with a row for each GPU vendor. To add one, add a word to enum gpu_vendor
 * (machine.h), a row in vendor.c, and a directory beside nvidia/ and amd/ with the functions that
 * the row names. How a job's variables name its GPUs is in choice/allocation.c. Capabilities,
 * requirements, MIG, forward compatibility and CDI files exist only for NVIDIA.
 */
#pragma once

#include "gpu/root.h"

struct gpu_sample; /* nvidia/nvml.h */

/* A node that all of a vendor's GPUs share. */
struct gpu_control {
	const char *path;
	unsigned caps; /* capabilities that bring it; 0: any */
	int is_needed; /* CUDA finds no GPU without it */
};

struct gpu_vendor_row {
	const char *name;  /* in JSON: "nvidia" */
	const char *title; /* in messages */

	/* --- on the host --- */
	const char *traces[4];  /* one of these files exists where its driver is loaded */
	const char *listed_in;  /* directory in which the driver lists its GPUs */
	const char *lacking;    /* why a driver may have no GPU that can be opened */
	const char *mend_group; /* what root does for a GPU closed by its mode */
	const char *mend;       /* what root does otherwise */
	/*
	 * Add its GPUs, nodes and warnings; with with_files also its driver's files for these
	 * capabilities. Returns 0, also without a GPU, or -errno.
	 */
	int (*find)(const struct gpu_dir *d, int with_files, unsigned caps, struct gpu_machine *m,
		struct mlr_error *err);
	/*
	 * Sample its GPUs, to gpu_samples_free(). Returns their number. NULL: use gpu_watch_open().
	 */
	int (*sample)(
		const struct gpu_dir *d, const struct gpu_machine *m, struct gpu_sample **ret);

	/* --- in the job --- */
	const char *visible;   /* lists the job's GPUs: "CUDA_VISIBLE_DEVICES" */
	const char *within[3]; /* variables that count among the GPUs listed there */
	const char *borrowed;  /* another vendor's variable, used in place of within[0] unless that
				  vendor has GPUs, as HIP uses CUDA's */
	int is_counted;        /* Slurm numbers them in order; else by their nodes' names */

	/* --- in the container --- */
	const char *image_variable; /* a variable or directory that marks an image for them */
	const char *image_directory;
	const char *image_own; /* an image with such a name in /opt keeps its own libraries; NULL:
				  the host's win */
	struct gpu_control controls[6];
	unsigned drm_caps; /* capabilities that bring the graphics nodes; 0: any */
};

extern const struct gpu_vendor_row gpu_vendors[GPU_VENDORS];

/*
 * Explain why programs with these capabilities cannot use a node of NVIDIA's that they need, and
 * what to do. To free(); NULL if they can or need not.
 */
char *gpu_control_lack(
	const struct gpu_machine *m, unsigned caps, const struct gpu_control *control);

/* Does the machine have a GPU of this vendor? */
int gpu_vendor_is_here(const struct gpu_machine *m, enum gpu_vendor vendor);

/* The vendor whose GPUs plain numbers count: the first present; GPU_VENDORS: none. */
enum gpu_vendor gpu_vendor_first(const struct gpu_machine *m);
