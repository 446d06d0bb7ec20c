/* A kernel whose result is checked: saxpy [N]. Linked with the CUDA runtime's static library, so
 * that an image needs the driver's libcuda.so.1 alone. */
#include <cstdio>
#include <cstdlib>
#include <vector>

static const float A = 2.0f;

static __global__ void saxpy(size_t n, float a, const float *x, float *y)
{
	size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		y[i] = a * x[i] + y[i];
}

static void check(cudaError_t e, const char *what)
{
	if (e == cudaSuccess)
		return;
	fprintf(stderr, "saxpy: %s: %s\n", what, cudaGetErrorString(e));
	exit(1);
}

int main(int argc, char **argv)
{
	size_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 1 << 20, wrong = 0;
	std::vector<float> x(n), y(n);
	float *dx, *dy;
	int devices, driver;
	cudaDeviceProp prop;

	check(cudaGetDeviceCount(&devices), "count devices");
	check(cudaDriverGetVersion(&driver), "ask the driver's version");
	check(cudaGetDeviceProperties(&prop, 0), "look at device 0");
	for (size_t i = 0; i < n; i++) {
		x[i] = (float)(i % 1000);
		y[i] = 1.0f;
	}
	check(cudaMalloc(&dx, n * sizeof(float)), "allocate x");
	check(cudaMalloc(&dy, n * sizeof(float)), "allocate y");
	check(cudaMemcpy(dx, x.data(), n * sizeof(float), cudaMemcpyHostToDevice), "copy x");
	check(cudaMemcpy(dy, y.data(), n * sizeof(float), cudaMemcpyHostToDevice), "copy y");
	saxpy<<<(unsigned)((n + 255) / 256), 256>>>(n, A, dx, dy);
	check(cudaGetLastError(), "start the kernel");
	check(cudaMemcpy(y.data(), dy, n * sizeof(float), cudaMemcpyDeviceToHost), "copy y back");
	for (size_t i = 0; i < n; i++)
		wrong += y[i] != A * (float)(i % 1000) + 1.0f;
	printf("saxpy: %s: %zu of %zu right on device 0 of %d, %s (CUDA %d.%d)\n",
		wrong ? "wrong" : "ok", n - wrong, n, devices, prop.name, driver / 1000,
		driver % 1000 / 10);
	return wrong != 0;
}
