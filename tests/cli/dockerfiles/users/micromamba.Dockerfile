# As micromamba's image is made: a user who must not be able to write outside of its own directories.
ARG BASE=mlrun/base
FROM $BASE AS stage1
RUN mkdir -p /etc/ssl/certs && echo program > /bin/micromamba-program && chmod 755 /bin/micromamba-program

FROM $BASE
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
ARG MAMBA_USER=mambauser
ARG MAMBA_USER_ID=57439
ARG MAMBA_USER_GID=57439
ENV MAMBA_USER=$MAMBA_USER
ENV MAMBA_ROOT_PREFIX="/opt/conda"
ENV MAMBA_EXE="/bin/micromamba"
ENV ENV_NAME="base"
COPY --from=stage1 /etc/ssl/certs /etc/ssl/certs
COPY --from=stage1 "/bin/micromamba-program" "$MAMBA_EXE"
COPY prepare attempts _dockerfile_*.sh /usr/local/bin/
RUN prepare "$MAMBA_USER_ID" "$MAMBA_USER_GID"

RUN if grep -q '^ubuntu:' /etc/passwd; then userdel -r ubuntu; fi && \
    groupadd -g "${MAMBA_USER_GID}" "${MAMBA_USER}" && \
    useradd -m -u "${MAMBA_USER_ID}" -g "${MAMBA_USER_GID}" -s /bin/bash "${MAMBA_USER}" && \
    echo "${MAMBA_USER}" > "/etc/arg_mamba_user" && \
    mkdir -p "$MAMBA_ROOT_PREFIX/conda-meta" && \
    chmod -R a+rwx "$MAMBA_ROOT_PREFIX" "/home" "/etc/arg_mamba_user" && \
    useradd -m neighbour && chmod 755 /home/neighbour && chmod 1777 /home && :

USER $MAMBA_USER
# The user can write to neither the system nor other homes.
RUN for d in / /etc /usr /usr/local /bin /root /home/neighbour /var/lib; do \
      if [ -w "$d" ] || touch "$d/.written" 2>/dev/null; then echo "$d is writable" >&2; exit 1; fi; \
    done && \
    touch "$MAMBA_ROOT_PREFIX/conda-meta/history" && ! cat /etc/shadow
RUN attempts /tmp/attempts
WORKDIR /tmp
ENTRYPOINT ["/usr/local/bin/_entrypoint.sh"]
CMD ["/bin/bash"]
SHELL ["/usr/local/bin/_dockerfile_shell.sh"]
RUN echo "in the shell: $MAMBA_DOCKERFILE_ACTIVATE" > shell-0
ARG MAMBA_DOCKERFILE_ACTIVATE=1
RUN echo "in the shell: $MAMBA_DOCKERFILE_ACTIVATE" > shell-1
COPY --chown=$MAMBA_USER:$MAMBA_USER prepare env.yaml* /tmp/
COPY --chown=$MAMBA_USER:$MAMBA_USER --chmod=0640 attempts /opt/conda/etc/
RUN echo 'one' > "$MAMBA_ROOT_PREFIX/one" && ln -s one "$MAMBA_ROOT_PREFIX/two" && \
    ln "$MAMBA_ROOT_PREFIX/one" "$MAMBA_ROOT_PREFIX/three" && mkfifo "$MAMBA_ROOT_PREFIX/pipe" && \
    rm /tmp/shell-0 && id > ids

USER root
RUN chown -R --no-dereference "$MAMBA_USER" /tmp/prepare && rm -rf /home/neighbour && userdel neighbour && id > /root/ids
USER 61234
RUN id > /tmp/ids-unknown; echo "$HOME" >> /tmp/ids-unknown; touch /home/unknown; attempts /tmp/attempts-unknown
USER $MAMBA_USER:users
RUN id >> /tmp/ids; touch /home/in-users
