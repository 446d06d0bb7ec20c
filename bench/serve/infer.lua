-- wrk's requests: infer.lua -- MODEL IMAGES BATCH [DISTINCT]: v2's binary form, BATCH images in each, in turn.
function init(args)
	local model, file, batch = args[1], io.open(args[2], "rb"), tonumber(args[3])
	local distinct = tonumber(args[4] or 100)
	local size = batch * 784
	requests, at = {}, 0
	file:seek("set", 16)
	for i = 1, distinct do
		local images = file:read(size)
		if not images or #images < size then break end
		local json = string.format('{"inputs":[{"name":"images","shape":[%d,1,28,28],"datatype":"UINT8",' ..
			'"parameters":{"binary_data_size":%d}}],"outputs":[{"name":"probabilities","parameters":{"binary_data":true}}]}',
			batch, size)
		requests[i] = wrk.format("POST", "/v2/models/" .. model .. "/infer", {
			["Inference-Header-Content-Length"] = tostring(#json),
			["Content-Type"] = "application/octet-stream" }, json .. images)
	end
end

function request()
	at = at % #requests + 1
	return requests[at]
end

function done(summary, latency)
	local e = summary.errors
	io.write(string.format("RESULT %d %.1f %.3f %.3f %d\n", summary.requests, summary.requests / summary.duration * 1e6,
		latency:percentile(50) / 1000, latency:percentile(99) / 1000, e.connect + e.read + e.write + e.status + e.timeout))
end
