#!/bin/bash
echo "CUDA Version ${CUDA_VERSION}"
