// Shopify's sarama, which asks for fixed versions and never for ApiVersions: main BOOTSTRAP all, or kill TOPIC COUNT.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Shopify/sarama"
)

var (
	bootstrap []string
	run       = strconv.FormatInt(time.Now().UnixNano()%1e9, 36)
	failed    = 0
)

func main() {
	bootstrap = strings.Split(os.Args[1], ",")
	if len(os.Args) > 2 && os.Args[2] == "kill" {
		count, _ := strconv.Atoi(os.Args[4])
		produceWhileSomebodyKills(os.Args[3], count)
		return
	}
	for _, version := range []sarama.KafkaVersion{sarama.V0_11_0_0, sarama.V1_0_0_0, sarama.V2_2_0_0} {
		if version.IsAtLeast(sarama.V1_0_0_0) { // before, it asks for CreateTopics 1, which Kafka 4 has no more either
			step("admin "+version.String(), func() string { return admin(version) })
		}
		step("codecs "+version.String(), func() string { return codecs(version) })
		step("group "+version.String(), func() string { return group(version) })
	}
	step("large", large)
	step("headers and tombstones", headers)
	step("times", times)
	step("auto creation", autoCreation)
	if failed > 0 {
		os.Exit(1)
	}
}

// --- what is done -------------------------------------------------------------------------------------------------------

func admin(version sarama.KafkaVersion) string {
	cluster := must(sarama.NewClusterAdmin(bootstrap, config(version))).(sarama.ClusterAdmin)
	defer cluster.Close()
	topic := "sarama-admin-" + version.String() + run
	check(cluster.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 3}, false))
	if cluster.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 3}, false) == nil {
		panic("created twice")
	}
	described := must(cluster.DescribeTopics([]string{topic})).([]*sarama.TopicMetadata)
	expect(len(described[0].Partitions) == 3 && len(described[0].Partitions[0].Isr) == 3, "three partitions and copies")
	check(cluster.CreatePartitions(topic, 5, nil, false))
	check(cluster.DeleteTopic(topic))
	return "create, describe, enlarge, delete"
}

func codecs(version sarama.KafkaVersion) string {
	seen := ""
	for _, codec := range []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD} {
		if codec == sarama.CompressionZSTD && !version.IsAtLeast(sarama.V2_1_0_0) {
			continue
		}
		topic := makeTopic("codec-"+codec.String(), 1)
		options := config(version)
		options.Producer.Compression = codec
		options.Producer.Idempotent = true
		options.Net.MaxOpenRequests = 1
		produce(options, topic, 0, 500, 200)
		records := read(options, topic, 500)
		expect(string(records[499].Value)[:3] == "499", "in order")
		seen += codec.String() + " "
	}
	return seen + "500 records each, idempotent"
}

func group(version sarama.KafkaVersion) string {
	topic, name := makeTopic("group", 6), "sarama-group-"+version.String()+run
	options := config(version)
	options.Consumer.Offsets.Initial = sarama.OffsetOldest
	options.Consumer.Offsets.Retention = 24 * time.Hour // or it commits by OffsetCommit 1, which Kafka 4 has no more either
	options.Consumer.Group.Rebalance.Timeout = 10 * time.Second
	produce(options, topic, 0, 600, 10)
	seen := &handler{values: map[string]bool{}, claims: map[string]int{}}
	stopFirst := join(options, name, topic, "first", seen)
	seen.until("600 read", func() bool { return len(seen.values) == 600 })
	stopSecond := join(options, name, topic, "second", seen)
	seen.until("three each", func() bool { return seen.claims["first"] == 3 && seen.claims["second"] == 3 })
	produce(options, topic, 600, 600, 10)
	seen.until("1200 read", func() bool { return len(seen.values) == 1200 })
	stopSecond()
	seen.until("six again", func() bool { return seen.claims["first"] == 6 })
	stopFirst()
	produce(options, topic, 1200, 100, 10)
	after := &handler{values: map[string]bool{}, claims: map[string]int{}}
	stopThird := join(options, name, topic, "third", after)
	after.until("100 more", func() bool { return len(after.values) >= 100 })
	time.Sleep(300 * time.Millisecond)
	stopThird()
	expect(len(after.values) == 100, fmt.Sprintf("resumed: %d", len(after.values)))
	return "6 = 3 + 3 = 6, resumed"
}

func large() string {
	topic := makeTopic("large", 1)
	options := config(sarama.V2_2_0_0)
	options.Producer.MaxMessageBytes = 2000000
	produce(options, topic, 0, 5, 1000000)
	for _, record := range read(options, topic, 5) {
		expect(len(record.Value) >= 1000000, "whole")
	}
	return "five of 1 MB, each the first request of its connection or not"
}

func headers() string {
	topic := makeTopic("headers", 1)
	options := config(sarama.V2_2_0_0)
	producer := must(sarama.NewSyncProducer(bootstrap, options)).(sarama.SyncProducer)
	defer producer.Close()
	_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder("k"), Value: sarama.StringEncoder("v"),
		Headers: []sarama.RecordHeader{{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("empty"), Value: []byte{}}}})
	check(err)
	_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder("k")})
	check(err)
	records := read(options, topic, 2)
	expect(len(records[0].Headers) == 2 && string(records[0].Headers[0].Value) == "1", "headers")
	expect(records[1].Value == nil, "a tombstone")
	return "two headers, a tombstone"
}

func times() string {
	topic := makeTopic("times", 1)
	options := config(sarama.V2_2_0_0)
	producer := must(sarama.NewSyncProducer(bootstrap, options)).(sarama.SyncProducer)
	defer producer.Close()
	base := time.Now().Add(-100 * time.Second).Truncate(time.Millisecond)
	for i := 0; i < 50; i++ {
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(strconv.Itoa(i)), Timestamp: base.Add(time.Duration(i) * time.Second)})
		check(err)
	}
	client := must(sarama.NewClient(bootstrap, options)).(sarama.Client)
	defer client.Close()
	at := must(client.GetOffset(topic, 0, base.Add(20500*time.Millisecond).UnixNano()/1e6)).(int64)
	newest := must(client.GetOffset(topic, 0, sarama.OffsetNewest)).(int64)
	oldest := must(client.GetOffset(topic, 0, sarama.OffsetOldest)).(int64)
	expect(at == 21 && newest == 50 && oldest == 0, fmt.Sprintf("%d %d %d", oldest, at, newest))
	return "by time, oldest, newest"
}

func autoCreation() string {
	topic := "sarama-auto-" + run
	produce(config(sarama.V2_2_0_0), topic, 0, 10, 10)
	return fmt.Sprint(len(read(config(sarama.V2_2_0_0), topic, 10)), " records")
}

func produceWhileSomebodyKills(topic string, count int) {
	options := config(sarama.V2_2_0_0)
	options.Producer.Idempotent = true
	options.Net.MaxOpenRequests = 1
	options.Producer.Retry.Max = 100
	options.Producer.Retry.Backoff = 100 * time.Millisecond
	producer := must(sarama.NewAsyncProducer(bootstrap, options)).(sarama.AsyncProducer)
	go func() {
		for i := 0; i < count; i++ {
			key := sarama.StringEncoder("k" + strconv.Itoa(i%7))
			producer.Input() <- &sarama.ProducerMessage{Topic: topic, Key: key, Value: sarama.StringEncoder(strconv.Itoa(i))}
			if i%20 == 0 {
				time.Sleep(10 * time.Millisecond)
			}
		}
	}()
	acked, refused := 0, 0
	for acked+refused < count {
		select {
		case <-producer.Successes():
			acked++
			if acked == count/4 {
				fmt.Println("a quarter")
			}
		case err := <-producer.Errors():
			refused++
			fmt.Println("failed:", err)
		case <-time.After(60 * time.Second):
			fmt.Println("silence for a minute")
			refused = count
		}
	}
	fmt.Println("acked", acked, "failed", refused)
}

// --- with what ----------------------------------------------------------------------------------------------------------

func config(version sarama.KafkaVersion) *sarama.Config {
	options := sarama.NewConfig()
	options.Version = version
	options.Producer.RequiredAcks = sarama.WaitForAll
	options.Producer.Return.Successes = true
	options.Consumer.Return.Errors = false
	return options
}

func makeTopic(name string, partitions int32) string {
	cluster := must(sarama.NewClusterAdmin(bootstrap, config(sarama.V2_2_0_0))).(sarama.ClusterAdmin)
	defer cluster.Close()
	topic := "sarama-" + name + "-" + strconv.FormatInt(time.Now().UnixNano()%1e9, 36)
	check(cluster.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 3}, false))
	return topic
}

func produce(options *sarama.Config, topic string, from, count, size int) {
	producer := must(sarama.NewSyncProducer(bootstrap, options)).(sarama.SyncProducer)
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	for i := from; i < from+count; i++ {
		value := strconv.Itoa(i) + " " + strings.Repeat("x", size)
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder(strconv.Itoa(i)), Value: sarama.StringEncoder(value)})
	}
	check(producer.SendMessages(messages))
}

func read(options *sarama.Config, topic string, count int) []*sarama.ConsumerMessage {
	consumer := must(sarama.NewConsumer(bootstrap, options)).(sarama.Consumer)
	defer consumer.Close()
	partition := must(consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)).(sarama.PartitionConsumer)
	defer partition.Close()
	var found []*sarama.ConsumerMessage
	for len(found) < count {
		select {
		case message := <-partition.Messages():
			found = append(found, message)
		case <-time.After(20 * time.Second):
			panic(fmt.Sprintf("%d of %d read", len(found), count))
		}
	}
	return found
}

type handler struct {
	lock   sync.Mutex
	values map[string]bool
	claims map[string]int
}

type member struct {
	*handler
	name string
}

func (m member) Setup(session sarama.ConsumerGroupSession) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.claims[m.name] = 0
	for _, partitions := range session.Claims() {
		m.claims[m.name] += len(partitions)
	}
	return nil
}

func (m member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		m.lock.Lock()
		m.values[string(message.Key)] = true
		m.lock.Unlock()
		session.MarkMessage(message, "seen")
	}
	return nil
}

func (h *handler) until(what string, done func() bool) {
	for deadline := time.Now().Add(40 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		h.lock.Lock()
		now := done()
		h.lock.Unlock()
		if now {
			return
		}
		expect(time.Now().Before(deadline), what+" not in 40 s")
	}
}

func join(options *sarama.Config, name, topic, who string, seen *handler) func() {
	members := must(sarama.NewConsumerGroup(bootstrap, name, options)).(sarama.ConsumerGroup)
	context, cancel := context.WithCancel(context.Background())
	ended := make(chan bool)
	go func() {
		defer close(ended)
		for context.Err() == nil {
			if err := members.Consume(context, []string{topic}, member{seen, who}); err != nil && context.Err() == nil {
				fmt.Println(who, err)
			}
		}
	}()
	return func() {
		cancel()
		<-ended
		check(members.Close())
	}
}

func step(name string, work func() string) {
	began := time.Now()
	defer func() {
		if why := recover(); why != nil {
			failed++
			fmt.Printf("FAILED  %-24s %v\n", name, why)
		}
	}()
	seen := work()
	fmt.Printf("ok      %-24s %5d ms  %s\n", name, time.Since(began).Milliseconds(), seen)
}

func must(found interface{}, err error) interface{} {
	check(err)
	return found
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func expect(holds bool, what string) {
	if !holds {
		panic(errors.New(what))
	}
}
