// Quantiles of a histogram: counts by bucket, with bounds in nanoseconds.

// Return the quantile SHARE, estimated as the server does it: as if each bucket were evenly filled.
// Return null if all counts are 0.
export function quantile(counts, bounds, share) {
	const total = counts?.reduce((sum, n) => sum + n, 0) ?? 0;
	if (!(total > 0))
		return null;
	const wanted = share * total;
	let before = 0;
	for (let i = 0; i < counts.length; i++) {
		if (counts[i] > 0 && before + counts[i] >= wanted)
			return bounds[i] + (bounds[i + 1] - bounds[i]) * Math.max(0, wanted - before) / counts[i];
		before += counts[i];
	}
	return bounds[counts.length];
}

// Return the sums over COLUMNS by bucket. Columns may be null.
export function sumOf(columns, bounds) {
	const sums = new Array(bounds.length - 1).fill(0);
	for (const column of columns)
		column?.forEach((n, bucket) => sums[bucket] += n);
	return sums;
}
