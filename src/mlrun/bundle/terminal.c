#include "bundle/terminal.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

int terminal_connect(const char *path, struct mlr_error *err)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(a.sun_path))
		return mlr_fail(err, ENAMETOOLONG, "--console-socket '%s'", path);
	strcpy(a.sun_path, path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return mlr_fail_errno(err, "--console-socket '%s'", path);
	return take_fd(&fd);
}

int terminal_enter(int socket, int rows, int columns, struct mlr_error *err)
{
	auto_close int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), slave = -1;
	struct winsize size = { .ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns };
	int locked = 0, r;

	if (master < 0 || ioctl(master, TIOCSPTLCK, &locked) < 0)
		return mlr_fail_errno(err, "open a terminal in the container");
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return mlr_fail_errno(err, "open a terminal in the container");
	if (rows)
		ioctl(slave, TIOCSWINSZ, &size);
	r = (int)fds_send(socket, "/dev/ptmx", strlen("/dev/ptmx"), master);
	if (r < 0)
		return mlr_fail(err, -r, "send the terminal: %s", strerror(-r));
	setsid();
	if (ioctl(slave, TIOCSCTTY, 0) < 0)
		return mlr_fail_errno(err, "take the terminal");
	for (int fd = 0; fd <= 2; fd++)
		if (dup2(slave, fd) < 0)
			return mlr_fail_errno(err, "take the terminal");
	return 0;
}
