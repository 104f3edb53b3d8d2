package rows

// Gallop returns how many of n things, from the first on, has says are there, where the first that
// is not there has none behind it. It asks about the first one, then further and further ones, and
// then between: about twice the logarithm of the result. An error of has ends it; what was found
// until then is returned with it.
func Gallop(n int, has func(i int) (bool, error)) (int, error) {
	have, lacks := 0, n+1 // of the first have all are there; of the first lacks they are not
	for step := 1; have < n && have+1 < lacks; {
		try := min(have+step, n)
		if lacks <= n {
			try = (have + lacks) / 2
		}
		ok, err := has(try - 1)
		if err != nil {
			return have, err
		}
		if ok {
			have, step = try, 2*step
		} else {
			lacks = try
		}
	}
	return have, nil
}
