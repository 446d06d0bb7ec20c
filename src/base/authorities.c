#include "base/authorities.h"

#include "base/cleanup.h"

const char *authorities_file(void)
{
	static const char *const places[] = { "/etc/ssl/certs/ca-certificates.crt",
		"/etc/pki/tls/certs/ca-bundle.crt",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/ca-bundle.pem",
		"/etc/ssl/cert.pem" };

	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (access(places[i], R_OK) == 0)
			return places[i];
	return NULL;
}

const char *authorities_instead_of(const char *usual)
{
	return usual && access(usual, R_OK) == 0 ? NULL : authorities_file();
}
