#include "data/known_sets.h"

#include "base/base.h"
#include "data/unpack.h"

static const struct known_set sets[] = {
	{ "mnist",
		{ "https://storage.googleapis.com/cvdf-datasets/mnist",
			"https://ossci-datasets.s3.amazonaws.com/mnist" },
		{ { "train-images-idx3-ubyte.gz",
			  "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609" },
			{ "train-labels-idx1-ubyte.gz",
				"3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c" },
			{ "t10k-images-idx3-ubyte.gz",
				"8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6" },
			{ "t10k-labels-idx1-ubyte.gz",
				"f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6" } } },
	{ "fashion-mnist",
		{ "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/"
		  "fashion",
			"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com" },
		{ { "train-images-idx3-ubyte.gz",
			  "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84" },
			{ "train-labels-idx1-ubyte.gz",
				"a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845" },
			{ "t10k-images-idx3-ubyte.gz",
				"346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073" },
			{ "t10k-labels-idx1-ubyte.gz",
				"67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5" } } },
	{ "cifar-10",
		{ "https://www.cs.toronto.edu/~kriz",
			"https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10" },
		{ { "cifar-10-binary.tar.gz",
			"c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd" } },
		&archive_cifar_10 },
	{ "cifar-100", { "https://www.cs.toronto.edu/~kriz", "http://www.cs.toronto.edu/~kriz" },
		{ { "cifar-100-binary.tar.gz",
			"58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec" } },
		&archive_cifar_100 },
};

const struct known_set *known_set_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		if (strcmp(name, sets[i].name) == 0)
			return &sets[i];
	return NULL;
}

const char *known_set_names(void)
{
	return "mnist, fashion-mnist, cifar-10, cifar-100";
}
