package record

// How a withdrawn message and a removed run release the files that they hold.
var (
	EstateReleases   = (*Tx).releases
	EstateReleaseAll = (*Store).releaseAll
)

// EstateOldSecret is the key under which older versions stored the secret that signed run tokens.
var EstateOldSecret = oldSecretKey()
