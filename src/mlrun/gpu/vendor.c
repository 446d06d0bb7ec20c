#include "gpu/vendor.h"

#include "gpu/amd/amd.h"
#include "gpu/node.h"
#include "gpu/nvidia/nvidia.h"

const struct gpu_vendor_row gpu_vendors[] = {
	[GPU_NVIDIA] = {
		.name = "nvidia",
		.title = "NVIDIA",
		/* nvidiactl: a surrounding container may hide the first. dxg: Windows (WSL). */
		.traces = { "/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg" },
		.listed_in = "/proc/driver/nvidia/gpus",
		.find = gpu_nvidia_find,
		.visible = "CUDA_VISIBLE_DEVICES",
		.image_variable = "CUDA_VERSION",
		.image_directory = "/usr/local/cuda",
		.controls = {
			{ "/dev/nvidiactl", 0, 1 },
			{ "/dev/nvidia-uvm", GPU_COMPUTE | GPU_VIDEO, 1 },
			{ "/dev/nvidia-uvm-tools", GPU_COMPUTE | GPU_VIDEO, 0 },
			{ "/dev/nvidia-modeset", GPU_DISPLAY, 0 },
			{ "/dev/dxg", 0, 0 },
		},
		.drm_caps = GPU_GRAPHICS | GPU_DISPLAY,
	},
	[GPU_AMD] = {
		.name = "amd",
		.title = "AMD",
		.traces = { "/dev/kfd" },
		.listed_in = "/sys/class/kfd",
		.lacking = "/dev/kfd or the nodes in /dev/dri are not there",
		.mend_group = "usermod -aG render,video USER",
		.mend = "modprobe amdgpu && udevadm trigger",
		.find = gpu_amd_find,
		.sample = gpu_amd_sample,
		.visible = "ROCR_VISIBLE_DEVICES",
		.within = { "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL" },
		.borrowed = "CUDA_VISIBLE_DEVICES",
		.is_counted = 1,
		.image_variable = "ROCM_VERSION",
		.image_directory = "/opt/rocm",
		.image_own = "rocm",
		.controls = { { "/dev/kfd", 0, 0 } },
	},
};

char *gpu_control_lack(
	const struct gpu_machine *m, unsigned caps, const struct gpu_control *control)
{
	const struct gpu_node lacking = { .path = (char *)control->path, .error = ENOENT };
	const struct gpu_node *n = gpu_machine_node(m, control->path);

	if (m->driver != GPU_DRIVER_NVIDIA || !control->is_needed ||
		(control->caps && !(control->caps & caps)))
		return NULL;
	return gpu_node_why(n ? n : &lacking);
}

int gpu_vendor_is_here(const struct gpu_machine *m, enum gpu_vendor vendor)
{
	for (size_t i = 0; i < m->n_gpus; i++)
		if (m->gpus[i].vendor == vendor)
			return 1;
	return 0;
}

enum gpu_vendor gpu_vendor_first(const struct gpu_machine *m)
{
	enum gpu_vendor v = 0;

	while (v < GPU_VENDORS && !gpu_vendor_is_here(m, v))
		v++;
	return v;
}
