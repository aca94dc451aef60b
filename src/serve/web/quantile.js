// Quantiles of a histogram: counts by bucket, with bounds in nanoseconds.

// Evenly filled buckets: the same guess as that of the server. null: there is no count.
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

// The sum of COLUMNS, which may be null, by bucket.
export function sumOf(columns, bounds) {
	const sums = new Array(bounds.length - 1).fill(0);
	for (const column of columns)
		column?.forEach((n, bucket) => sums[bucket] += n);
	return sums;
}
