"""Validation of the logs and disks of a real Kafka cluster."""
