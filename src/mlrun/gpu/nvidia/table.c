#include "gpu/nvidia/table.h"

/* Video programs need CUDA's libraries, a display needs those of graphics. */
#define COMPUTE  (GPU_COMPUTE | GPU_VIDEO)
#define GRAPHICS (GPU_GRAPHICS | GPU_DISPLAY)

/* GLVND's libGL, libGLX, libOpenGL and libGLdispatch belong to the distribution and are never
 * listed here: the image's own fit its C library (apptainer#598). */
const struct gpu_library_row gpu_libraries[] = {
	{ "libnvidia-ml.so", GPU_UTILITY, GPU_BY_VERSION, NULL },
	{ "libnvidia-cfg.so", GPU_UTILITY, GPU_BY_VERSION, NULL },
	{ "libnvidia-nscq.so", GPU_UTILITY, GPU_BY_VERSION, NULL },

	{ "libcuda.so", COMPUTE, GPU_BY_VERSION, NULL },
	{ "libcudadebugger.so", COMPUTE, GPU_BY_VERSION, NULL },
	{ "libnvidia-opencl.so", COMPUTE, GPU_BY_VERSION, NULL },
	/* Also the shader compiler, since 545. */
	{ "libnvidia-gpucomp.so", COMPUTE | GRAPHICS, GPU_BY_VERSION, NULL },
	{ "libnvidia-ptxjitcompiler.so", COMPUTE, GPU_BY_VERSION, NULL },
	{ "libnvidia-fatbinaryloader.so", COMPUTE, GPU_BY_VERSION, NULL },
	/* Also the backend of GBM, as gbm/nvidia-drm_gbm.so. */
	{ "libnvidia-allocator.so", COMPUTE | GRAPHICS, GPU_BY_VERSION, NULL },
	{ "libnvidia-compiler.so", COMPUTE, GPU_BY_VERSION, NULL },
	{ "libnvidia-pkcs11.so", COMPUTE, GPU_BY_VERSION, NULL },
	{ "libnvidia-pkcs11-openssl3.so", COMPUTE, GPU_BY_VERSION, NULL },
	{ "libnvidia-nvvm.so", COMPUTE, GPU_BY_VERSION, NULL },
	{ "libnvidia-nvvm70.so.4", COMPUTE, GPU_BY_NAME, NULL },
	{ "libnvidia-tileiras.so", COMPUTE, GPU_BY_VERSION, NULL },
	{ "libnvidia-sandboxutils.so", COMPUTE, GPU_BY_VERSION, NULL },

	{ "libvdpau_nvidia.so", GPU_VIDEO, GPU_BY_VERSION, "vdpau" },
	{ "libnvidia-encode.so", GPU_VIDEO, GPU_BY_VERSION, NULL },
	{ "libnvidia-opticalflow.so", GPU_VIDEO, GPU_BY_VERSION, NULL },
	{ "libnvcuvid.so", GPU_VIDEO, GPU_BY_VERSION, NULL },

	{ "libnvidia-eglcore.so", GRAPHICS, GPU_BY_VERSION, NULL },
	{ "libnvidia-glcore.so", GRAPHICS, GPU_BY_VERSION, NULL },
	{ "libnvidia-tls.so", GRAPHICS, GPU_BY_VERSION, "tls" },
	{ "libnvidia-glsi.so", GRAPHICS, GPU_BY_VERSION, NULL },
	{ "libnvidia-fbc.so", GRAPHICS, GPU_BY_VERSION, NULL },
	{ "libnvidia-ifr.so", GRAPHICS, GPU_BY_VERSION, NULL },
	{ "libnvidia-rtcore.so", GRAPHICS, GPU_BY_VERSION, NULL },
	{ "libnvoptix.so", GRAPHICS, GPU_BY_VERSION, NULL },
	{ "libGLX_nvidia.so", GRAPHICS, GPU_BY_VERSION, NULL },
	{ "libEGL_nvidia.so", GRAPHICS, GPU_BY_VERSION, NULL },
	{ "libGLESv2_nvidia.so", GRAPHICS, GPU_BY_VERSION, NULL },
	{ "libGLESv1_CM_nvidia.so", GRAPHICS, GPU_BY_VERSION, NULL },
	{ "libnvidia-glvkspirv.so", GRAPHICS, GPU_BY_VERSION, NULL },
	{ "libnvidia-cbl.so", GRAPHICS, GPU_BY_VERSION, NULL },
	{ "libnvidia-vulkan-producer.so", GRAPHICS, GPU_BY_VERSION, NULL },
	/* A layer of Vulkan that nvidia_layers.json names, since 550. */
	{ "libnvidia-present.so", GRAPHICS, GPU_BY_VERSION, NULL },
	{ "libnvidia-vksc-core.so", GRAPHICS, GPU_BY_VERSION, NULL },
	{ "libnvidia-egl-gbm.so.1", GRAPHICS, GPU_BY_NAME, NULL },
	{ "libnvidia-egl-wayland.so.1", GRAPHICS, GPU_BY_NAME, NULL },
	{ "libnvidia-egl-wayland2.so.1", GRAPHICS, GPU_BY_NAME, NULL },
	{ "libnvidia-egl-xcb.so.1", GRAPHICS, GPU_BY_NAME, NULL },
	{ "libnvidia-egl-xlib.so.1", GRAPHICS, GPU_BY_NAME, NULL },
	{ "libnvidia-api.so.1", GRAPHICS, GPU_BY_NAME, NULL },

	{ "libnvidia-ngx.so", GPU_NGX, GPU_BY_VERSION, NULL },
	{ NULL },
};

const struct gpu_program_row gpu_programs[] = {
	{ "nvidia-smi", GPU_UTILITY },
	{ "nvidia-debugdump", GPU_UTILITY },
	{ "nvidia-persistenced", GPU_UTILITY },
	{ "nv-fabricmanager", GPU_UTILITY },
	{ "nvidia-cuda-mps-control", GPU_COMPUTE },
	{ "nvidia-cuda-mps-server", GPU_COMPUTE },
	{ "nvidia-imex", GPU_COMPUTE },
	{ "nvidia-imex-ctl", GPU_COMPUTE },
	{ "nvidia-xconfig", GPU_DISPLAY },
	{ NULL },
};

const struct gpu_data_row gpu_data[] = {
	{ "glvnd/egl_vendor.d/10_nvidia.json", GRAPHICS, "/usr/share" },
	{ "egl/egl_external_platform.d/15_nvidia_gbm.json", GRAPHICS, "/usr/share" },
	{ "egl/egl_external_platform.d/10_nvidia_wayland.json", GRAPHICS, "/usr/share" },
	{ "egl/egl_external_platform.d/09_nvidia_wayland2.json", GRAPHICS, "/usr/share" },
	{ "egl/egl_external_platform.d/20_nvidia_xcb.json", GRAPHICS, "/usr/share" },
	{ "egl/egl_external_platform.d/20_nvidia_xlib.json", GRAPHICS, "/usr/share" },
	{ "nvidia/nvoptix.bin", GRAPHICS, "/usr/share" },
	{ "X11/xorg.conf.d/10-nvidia.conf", GRAPHICS, "/usr/share" },
	{ "X11/xorg.conf.d/nvidia-drm-outputclass.conf", GRAPHICS, "/usr/share" },
	/* It refers to libnvidia-opencl, which compute brings. */
	{ "OpenCL/vendors/nvidia.icd", COMPUTE | GRAPHICS, "/etc" },
	{ "vulkan/icd.d/nvidia_icd.json", GRAPHICS, "/etc" },
#if defined(__x86_64__)
	{ "vulkan/icd.d/nvidia_icd.x86_64.json", GRAPHICS, "/etc" },
#elif defined(__aarch64__)
	{ "vulkan/icd.d/nvidia_icd.aarch64.json", GRAPHICS, "/etc" },
#endif
	{ "vulkan/icd.d/nvidia_layers.json", GRAPHICS, "/etc" },
	{ "vulkan/implicit_layer.d/nvidia_layers.json", GRAPHICS, "/etc" },
	{ NULL },
};

const struct gpu_socket_row gpu_sockets[] = {
	{ "nvidia-persistenced/socket", GPU_UTILITY },
	{ "nvidia-fabricmanager/socket", GPU_UTILITY },
	{ NULL },
};

const struct gpu_library_row gpu_wsl_libraries[] = {
	{ "libdxcore.so", 0, GPU_BY_NAME, NULL },
	{ "libcuda.so.1", COMPUTE, GPU_BY_NAME, NULL },
	{ "libcudadebugger.so.1", COMPUTE, GPU_BY_NAME, NULL },
	{ "libnvidia-ml.so.1", GPU_UTILITY, GPU_BY_NAME, NULL },
	{ "libnvcuvid.so.1", GPU_VIDEO, GPU_BY_NAME, NULL },
	{ "libnvidia-encode.so.1", GPU_VIDEO, GPU_BY_NAME, NULL },
	{ "libnvidia-opticalflow.so.1", GPU_VIDEO, GPU_BY_NAME, NULL },
	{ "libnvidia-ngx.so.1", GPU_NGX, GPU_BY_NAME, NULL },
	{ "libnvoptix.so.1", GRAPHICS, GPU_BY_NAME, NULL },
	{ "libnvoptix_loader.so.1", GRAPHICS, GPU_BY_NAME, NULL },
	{ "libnvdxdlkernels.so", GRAPHICS, GPU_BY_NAME, NULL },
	{ "libnvwgf2umx.so", GRAPHICS, GPU_BY_NAME, NULL },
	{ "libd3d12.so", GRAPHICS, GPU_BY_NAME, NULL },
	{ "libd3d12core.so", GRAPHICS, GPU_BY_NAME, NULL },
	{ NULL },
};

const char *gpu_table_link(const char *name)
{
	static const char *const links[][2] = {
		{ "libcuda.so", "libcuda.so" },
		{ "libnvidia-opticalflow.so", "libnvidia-opticalflow.so" },
		{ "libGLX_nvidia.so", "libGLX_indirect.so.0" },
		{ "libnvidia-vulkan-producer.so", "libnvidia-vulkan-producer.so" },
		{ "libvdpau_nvidia.so", "libvdpau_nvidia.so" },
	};

	for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++) {
		size_t len = strlen(links[i][0]);

		if (strncmp(name, links[i][0], len) == 0 && (!name[len] || name[len] == '.'))
			return links[i][1];
	}
	return NULL;
}
