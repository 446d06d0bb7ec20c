# As code-server's image is made: sudo without a password, a set-user-ID program that fixes ids, and root from time to time.
ARG BASE=mlrun/base
FROM $BASE
ENV DEBIAN_FRONTEND=noninteractive
RUN apt-get update \
  && apt-get install -y --no-install-recommends \
    adduser dumb-init iputils-ping libcap2-bin locales openssh-client procps sudo zsh \
  && rm -rf /var/lib/apt/lists/*
RUN sed -i "s/# en_US.UTF-8/en_US.UTF-8/" /etc/locale.gen \
  && locale-gen
ENV LANG=en_US.UTF-8

RUN if grep -q 1000 /etc/passwd; then \
    userdel -r "$(id -un 1000)"; \
  fi \
  && adduser --gecos '' --disabled-password coder \
  && echo "coder ALL=(ALL) NOPASSWD:ALL" >>/etc/sudoers.d/nopasswd

# A program with the set-user-ID bit, as fixuid: here a shell.
RUN ARCH="$(dpkg --print-architecture)" \
  && cp /bin/bash /usr/local/bin/fixuid \
  && chown root:root /usr/local/bin/fixuid \
  && chmod 4755 /usr/local/bin/fixuid \
  && mkdir -p /etc/fixuid \
  && printf "user: coder\ngroup: coder\npaths:\n  - /home/coder\n" > /etc/fixuid/config.yml
RUN cp /usr/bin/id /usr/local/bin/set-group && chgrp staff /usr/local/bin/set-group && chmod 2755 /usr/local/bin/set-group \
  && cp /bin/true /usr/local/bin/capable && setcap cap_net_bind_service=+ep /usr/local/bin/capable

COPY prepare attempts /usr/local/bin/
RUN prepare 1000 1000
# Allow users to have scripts run on container startup to prepare workspace.
ENV ENTRYPOINTD=/home/coder/entrypoint.d
EXPOSE 8080
# This way, if someone sets $DOCKER_USER, docker-exec will still work as the uid will remain the same.
USER 1000
ENV USER=coder
WORKDIR /home/coder
RUN id > ids && sudo id >> ids && sudo -u nobody id >> ids && set-group >> ids
RUN sudo mkdir -p /opt/tools && sudo chown coder:coder /opt/tools && touch /opt/tools/mine && sudo touch /opt/tools/roots \
  && sudo chmod 600 /etc/fixuid/config.yml && sudo sh -c 'echo sudo > /etc/by-sudo' && sudo install -o coder -m 640 ids /opt/tools/ids
RUN fixuid -p -c 'id -u; cat /etc/fixuid/config.yml; echo fixed > /run/fixuid.ran; chmod 600 /run/fixuid.ran' > fixed \
  && ! cat /run/fixuid.ran && ! rm -f /etc/fixuid/config.yml
RUN sudo apt-get update -qq && sudo apt-get install -y -qq --no-install-recommends tree && sudo rm -rf /var/lib/apt/lists/* \
  && sudo adduser coder staff && mkdir -p .local/share .config && echo 'bind-addr: 127.0.0.1:8080' > .config/config.yaml \
  && chmod 700 .config && chmod 600 .config/config.yaml && ssh-keygen -q -t ed25519 -N '' -f key -C none && rm key key.pub
RUN attempts /home/coder/attempts
RUN sudo -u nobody attempts /tmp/attempts-nobody
USER root
RUN su coder -c 'attempts /tmp/attempts-su; umask 0; touch ~/by-su' && setpriv --reuid 65534 --regid 65534 --clear-groups attempts /tmp/attempts-setpriv; \
  chmod 4755 /usr/bin/tree && chown root:staff /usr/bin/tree
USER coder
ENTRYPOINT ["/usr/bin/entrypoint.sh", "--bind-addr", "0.0.0.0:8080", "."]
