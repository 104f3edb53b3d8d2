module github.com/axle-llm/axle/testdata/objects

go 1.26.0

require (
	github.com/axle-llm/axle v0.0.0
	github.com/minio/minio-go/v7 v7.4.1
	github.com/versity/versitygw v1.8.0
)

replace github.com/axle-llm/axle => ../..

tool github.com/versity/versitygw/cmd/versitygw
