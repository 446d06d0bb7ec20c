#!/bin/bash
# Run a RUN's command, in an environment if it asks for that.
set -ef -o pipefail
if [[ "${MAMBA_DOCKERFILE_ACTIVATE}" == "1" ]]; then
	export ACTIVATED=yes
fi
eval "$*"
