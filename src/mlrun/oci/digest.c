#include "oci/digest.h"

#define PREFIX     "sha256:"
#define PREFIX_LEN (sizeof(PREFIX) - 1)

int oci_digest_check(const char *digest, struct mlr_error *err)
{
	static const char hex[] = "0123456789abcdef";
	const char *colon = strchr(digest, ':');
	size_t n;

	if (strncmp(digest, PREFIX, PREFIX_LEN) != 0) {
		/* The grammar's algorithms: "sha512", "blake3", "multihash+base58". */
		n = strspn(digest, "abcdefghijklmnopqrstuvwxyz0123456789+._-");
		if (colon && n > 0 && digest + n == colon)
			return mlr_fail(
				err, ENOTSUP, "digest '%.100s': only sha256 is supported", digest);
		return mlr_fail(
			err, EINVAL, "'%.100s' is not a digest, sha256: and 64 digits", digest);
	}
	n = strspn(digest + PREFIX_LEN, hex);
	if (n != 64 || digest[PREFIX_LEN + n] != '\0')
		return mlr_fail(err, EINVAL,
			"digest '%.100s' has not 64 lower-case hexadecimal digits after sha256:",
			digest);
	return 0;
}

const char *oci_digest_hex(const char *digest)
{
	return digest + PREFIX_LEN;
}
