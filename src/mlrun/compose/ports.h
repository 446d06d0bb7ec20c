/* Ports, as docker run -p and compose files name them. */
#pragma once

/* Does [[IP:]HOST:]PORT[/PROTOCOL] change nothing? The command's port stays the one that it opens,
 * on the addresses that it opens. */
int compose_port_is_so(const char *text);
