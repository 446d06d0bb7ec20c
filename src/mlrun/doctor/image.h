/* Looks whether an image would start on a machine: its labels, command, loader, MPI and GPUs. */
#pragma once

#include "doctor/doctor.h"
#include "gpu/choice/choice.h"
#include "oci/config.h"
#include "plan/plan.h"

/*
 * Add findings about an image.
 *
 *   p     its root and the environment of its container
 *   image its files, with the machine's processors
 *   c     its configuration, with labels
 *   root  what to take for the machine's "/": "" or a made-up one; NULL: another machine, of which
 *         only a profile is known
 *   libs  with root NULL: names of that machine's libraries; NULL: unknown
 */
void doctor_image(const struct plan *p, const struct gpu_image *image, const struct oci_config *c,
	const char *root, const struct strv *libs, struct doctor_report *ret);

/* Try a start of it here, as doctor_try_start(). */
void doctor_image_start(const char *image, const char *store, struct doctor_report *ret);

/*
 * Judge whether an image would work with a machine's GPUs.
 *
 *   q     word, caller and image of the job; if nobody asks for a GPU, judge as with --gpu=all
 *   p     has the image's platform and the environment
 *   m     this machine, or a recorded one
 *   fill  gpu_nvml_fill() for this machine, called only when nothing else can tell; else NULL
 */
void doctor_image_gpus(const struct gpu_request *q, const struct plan *p, struct gpu_machine *m,
	int (*fill)(struct gpu_machine *m, struct mlr_error *err), struct doctor_report *ret);

/*
 * Judge its CUDA by NVIDIA's "CUDA Compatibility": a driver supports the CUDA of its time and all
 * earlier ones; from CUDA 11 and driver 450.80.02 on, also later ones of the same major version,
 * except for programs whose kernels are PTX only; and later major versions if the image contains
 * libcuda and the GPU is a data centre's. Judge also whether it is too new or too old for the
 * compute capability of a chosen GPU: the first such one gets a finding.
 */
void doctor_image_cuda(const struct gpu_request *q, const struct gpu_machine *m,
	const struct gpu_choice *c, struct doctor_report *ret);
