# As Jupyter's docker-stacks are made: a user whose group may write, a prefix that it owns, root and it in turns.
ARG BASE=mlrun/base
FROM $BASE
LABEL maintainer="A Project <project@example.org>"
ARG NB_USER="jovyan"
ARG NB_UID="1000"
ARG NB_GID="100"
# Where pip finds certificates, for a builder that does not bring them.
ARG PIP_CERT

# Fix: https://github.com/hadolint/hadolint/wiki/DL4006
SHELL ["/bin/bash", "-o", "pipefail", "-c"]

USER root
ENV DEBIAN_FRONTEND=noninteractive
RUN apt-get update --yes && \
    apt-get install --yes --no-install-recommends \
    bzip2 ca-certificates locales netbase python3-venv sudo tini && \
    apt-get clean && rm -rf /var/lib/apt/lists/* && \
    echo "en_US.UTF-8 UTF-8" > /etc/locale.gen && \
    locale-gen

ENV CONDA_DIR=/opt/conda \
    SHELL=/bin/bash \
    NB_USER="${NB_USER}" \
    NB_UID=${NB_UID} \
    NB_GID=${NB_GID} \
    LC_ALL=en_US.UTF-8 \
    LANG=en_US.UTF-8
ENV PATH="${CONDA_DIR}/bin:${PATH}" \
    HOME="/home/${NB_USER}"

COPY fix-permissions /usr/local/bin/fix-permissions
RUN chmod a+rx /usr/local/bin/fix-permissions

RUN sed -i 's/^#force_color_prompt=yes/force_color_prompt=yes/' /etc/skel/.bashrc && \
    echo 'eval "$(python3 -m this 2>/dev/null)"' >> /etc/skel/.bashrc

RUN echo "auth requisite pam_deny.so" >> /etc/pam.d/su && \
    sed -i.bak -e 's/^%admin/#%admin/' /etc/sudoers && \
    sed -i.bak -e 's/^%sudo/#%sudo/' /etc/sudoers && \
    useradd --no-log-init --create-home --shell /bin/bash --uid "${NB_UID}" --no-user-group "${NB_USER}" && \
    mkdir -p "${CONDA_DIR}" && \
    chown "${NB_USER}:${NB_GID}" "${CONDA_DIR}" && \
    chmod g+w /etc/passwd && \
    fix-permissions "${CONDA_DIR}" && \
    fix-permissions "/home/${NB_USER}"

COPY prepare attempts /usr/local/bin/
RUN prepare "${NB_UID}" "${NB_GID}"

USER ${NB_UID}
RUN mkdir "/home/${NB_USER}/work" && \
    fix-permissions "/home/${NB_USER}"
WORKDIR /tmp
RUN python3 -m venv "${CONDA_DIR}" && \
    echo 'six ==1.16.0' >> "${CONDA_DIR}/pinned" && \
    pip install --no-cache-dir --quiet six==1.16.0 && \
    rm -rf "/home/${NB_USER}/.cache" && \
    fix-permissions "${CONDA_DIR}" && \
    fix-permissions "/home/${NB_USER}"
RUN attempts /home/${NB_USER}/attempts

USER root
RUN mkdir /usr/local/bin/start-notebook.d && \
    echo "${NB_USER} ALL=(ALL) NOPASSWD:ALL" > /etc/sudoers.d/path && \
    fix-permissions /usr/local/bin/start-notebook.d && \
    touch "${CONDA_DIR}/conda-meta" "/home/${NB_USER}/roots"
HEALTHCHECK --interval=3s --timeout=1s --start-period=3s --retries=3 \
    CMD /etc/jupyter/docker_healthcheck.py || exit 1
EXPOSE 8888
ENTRYPOINT ["tini", "-g", "--"]
CMD ["start.sh"]

USER ${NB_UID}
WORKDIR "${HOME}"
RUN id > ids && umask >> ids && echo "$HOME $PWD $SHELL" >> ids && sudo -n id >> ids && \
    touch "${CONDA_DIR}/lib/new" /usr/local/bin/start-notebook.d/new
COPY --chown=${NB_UID}:${NB_GID} prepare work/
