"""What is lost if vectors are compressed?"""
